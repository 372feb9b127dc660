"""What every optimiser promises, checked: for anyone's optimiser, in any test runner or none."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from kernelwright.errors import KernelwrightError
from kernelwright.errors import UsageError
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.space import Choice
from kernelwright.space import Configuration
from kernelwright.space import Flag
from kernelwright.space import key
from kernelwright.space import Knockout
from kernelwright.space import Permutation
from kernelwright.space import Range
from kernelwright.space import Space
from kernelwright.space import Subset
from kernelwright.space import when

#: Makes an optimiser: `(space, *, seed, objectives) -> Optimizer`.
Make = Callable[..., Optimizer]


class ConformanceError(KernelwrightError, AssertionError):
    """An optimiser that breaks the contract of `Optimizer`; `rule` is which part."""

    def __init__(self, rule: str, what: str) -> None:
        self.rule = rule
        super().__init__(f"the optimiser breaks the rule {rule!r}: {what}")


def check_optimizer(
    make: Make,
    *,
    spaces: Iterable[Space] | None = None,
    objectives: Sequence[int] = (1,),
    seeds: Sequence[int] = (0, 1),
    evaluations: int = 40,
    restores: bool = False,
) -> None:
    """Check the contract that the documentation of `Optimizer` states, rule by rule.

    Args:
        make: the class, or a function that makes one, called as `make(space, seed=…, objectives=…)`.
        spaces: what to search; by default one of each kind: constrained, with one point, a continuum,
            conditions and knocked-out parameters, arrangements, too large to list.
        objectives: for how many objectives it is made, in turn.
        seeds: with which seeds.
        evaluations: how many are asked in one check at most.
        restores: also check the stronger form: withholding what was asked does the same as asking it.

    Raises ConformanceError with the rule and the configuration where it is broken first. Errors of the
    optimiser itself pass through.
    """
    for space in sample_spaces() if spaces is None else spaces:
        for count in objectives:
            for seed in seeds:
                check = _Check(make, space, seed, count, evaluations)
                check.asks_are_valid_and_new()
                check.exhausts()
                check.knows_the_best()
                check.refuses()
                check.replays()
                check.asks_one_at_a_time()
                if restores:
                    check.restores()


def sample_spaces() -> list[Space]:
    """Small spaces of each kind, for checks."""
    return [
        Space({"only": Choice([7])}),
        Space(
            {"a": Range(0, 5), "b": Choice([1, 2, 4, 8], log=True), "kind": Choice(["x", "y"])},
            ["a * b <= 16", "kind == 'x' or a > 1"],
        ),
        Space({"a": Choice([1, 2, 4, 8]), "b": Choice([1, 2, 4, 8])}, ["a * b == 8"]),
        Space({"rate": Range(1e-4, 1.0, log=True), "on": Flag(), "level": Range(0.0, 1.0)}),
        Space(
            {
                "schedule": Choice(["static", "dynamic"]),
                "chunk": when("schedule == 'dynamic'", Choice([1, 2, 4])),
                "flag": Knockout(Choice(["-a", "-b"]), 0.3),
            }
        ),
        Space({"order": Permutation(["i", "j", "k"]), "passes": Subset(["inline", "unroll", "fuse"])}),
        Space({f"p{index}": Range(0, 9) for index in range(20)}, ["p0 + p1 <= 12", "p2 >= p3"]),
    ]


class _Check:
    def __init__(self, make: Make, space: Space, seed: int, objectives: int, evaluations: int) -> None:
        self._make = make
        self._space = space
        self._seed = seed
        self._objectives = objectives
        self._evaluations = evaluations

    def asks_are_valid_and_new(self) -> None:
        """With tells late, in any order, and of what was not asked; and whatever callers do to the dicts."""
        rng = random.Random(f"order/{self._seed}")
        optimizer = self._new()
        seen: set[str] = set()
        waiting: list[Configuration] = []
        while len(seen) < self._evaluations:
            if rng.random() < 0.1:
                own = self._space.sample(rng)
                if key(own) not in seen:
                    seen.add(key(own))
                    if rng.random() < 0.5:
                        optimizer.withhold(own)
                        waiting.append(own)
                    else:
                        optimizer.tell(own, self._outcome(own))
            if self._ask(optimizer, 0):
                self._break("ask(n) returns up to n", "ask(0) returned some")
            asked = self._ask(optimizer, rng.choice([1, 1, 2, 5]))
            if not asked:
                break
            for proposal in asked:
                self._require_new(proposal, seen)
                waiting.append(dict(proposal.configuration))
                proposal.configuration.clear()
            rng.shuffle(waiting)
            for _ in range(rng.randrange(len(waiting) + 1)):
                one = waiting.pop()
                optimizer.tell(one, self._outcome(one))

    def exhausts(self) -> None:
        """A space of few points is asked to its end, and then nothing; also where all fails."""
        count = self._space.count()
        if count is None or count > self._evaluations:
            return
        for fails in (False, True):
            optimizer = self._new()
            seen: set[str] = set()
            for proposal in self._until_empty(optimizer, fails=fails):
                self._require_new(proposal, seen)
            if len(seen) != count:
                self._break("the whole space is asked", f"{len(seen)} of {count} configurations were")

    def knows_the_best(self) -> None:
        """`best` is the lowest first score, the earliest of equals; failures and NaN are never it."""
        optimizer = self._new()
        best: tuple[float, Configuration] | None = None
        for index, proposal in enumerate(self._ask(optimizer, min(self._evaluations, 12))):
            told: tuple[float, ...] | Failure
            told = (math.nan,) * self._objectives if index % 4 == 0 else self._outcome(proposal.configuration)
            optimizer.tell(proposal.configuration, told)
            if index % 4 and not isinstance(told, Failure) and (best is None or told[0] < best[0]):
                best = told[0], proposal.configuration
        if optimizer.best != (None if best is None else best[1]):
            self._break("best is the lowest first score", f"it is {optimizer.best}, should be {best}")

    def refuses(self) -> None:
        """What was told, what is outside, and a wrong number of scores."""
        optimizer = self._new()
        outside = {**self._space.default, "not a parameter": 1}
        self._require_error("a configuration outside the space is refused", optimizer, outside, 1.0)
        for proposal in self._ask(optimizer, 1):
            wrong = (1.0,) * (self._objectives + 1)
            where = proposal.configuration
            self._require_error("a wrong number of scores is refused", optimizer, where, wrong)
            optimizer.tell(where, self._outcome(where))
            again = (1.0,) * self._objectives
            self._require_error("telling twice is refused", optimizer, where, again)

    def replays(self) -> None:
        """The same calls give the same proposals."""
        first, second = self._drive(self._new(), 2), self._drive(self._new(), 2)
        self._require_same("the same calls give the same proposals", first, second)

    def asks_one_at_a_time(self) -> None:
        """Asking for three is asking three times for one."""
        together, apart = self._new(), self._new()
        for _ in range(max(self._evaluations // 3, 1)):
            first = self._ask(together, 3)
            second = [one for _ in range(3) for one in self._ask(apart, 1)]
            self._require_same("asking for three is asking three times for one", first, second)
            for optimizer in (together, apart):
                for proposal in first:
                    optimizer.tell(proposal.configuration, self._outcome(proposal.configuration))

    def restores(self) -> None:
        """Withholding what was asked, and telling, does the same as asking it."""
        rule = "withholding what was asked does the same as asking it"
        first, second = self._new(), self._new()
        for proposal in self._drive(first, 2, self._evaluations // 2):
            second.withhold(proposal.configuration)
            second.tell(proposal.configuration, self._outcome(proposal.configuration))
        self._require_same(
            rule,
            self._drive(first, 2, self._evaluations // 2),
            self._drive(second, 2, self._evaluations // 2),
        )

    def _new(self) -> Optimizer:
        return self._make(self._space, seed=self._seed, objectives=self._objectives)

    def _ask(self, optimizer: Optimizer, n: int) -> list[Proposal]:
        asked = optimizer.ask(n)
        if len(asked) > n:
            self._break("ask(n) returns up to n", f"ask({n}) returned {len(asked)}")
        return asked

    def _drive(self, optimizer: Optimizer, n: int, evaluations: int | None = None) -> list[Proposal]:
        asked: list[Proposal] = []
        while len(asked) < (self._evaluations if evaluations is None else evaluations):
            batch = self._ask(optimizer, n)
            if not batch:
                break
            asked.extend(batch)
            for proposal in batch:
                optimizer.tell(proposal.configuration, self._outcome(proposal.configuration))
        return asked

    def _until_empty(self, optimizer: Optimizer, *, fails: bool) -> Iterator[Proposal]:
        while batch := self._ask(optimizer, 3):
            for proposal in batch:
                yield proposal
                outcome = Failure("wrong") if fails else self._outcome(proposal.configuration)
                optimizer.tell(proposal.configuration, outcome)

    def _outcome(self, configuration: Configuration) -> tuple[float, ...] | Failure:
        """Rugged on a slope, the same for the same configuration; some fail."""
        chance = zlib.crc32(key(configuration).encode()) / 2**32
        if chance < 0.15:
            return Failure("crashed", "signal 11")
        slope = sum(self._space.encode(configuration))
        return tuple(
            chance + (slope if index % 2 == 0 else -slope) + index for index in range(self._objectives)
        )

    def _require_new(self, proposal: Proposal, seen: set[str]) -> None:
        configuration = proposal.configuration
        if not self._space.contains(configuration) or self._space.validate(configuration) != configuration:
            self._break("proposals are valid", f"{configuration} is not in the space")
        if key(configuration) in seen:
            self._break(
                "nothing is asked that was seen", f"{configuration} was asked, told or withheld before"
            )
        seen.add(key(configuration))

    def _require_same(self, rule: str, first: Sequence[Proposal], second: Sequence[Proposal]) -> None:
        ours = [key(one.configuration) for one in first]
        others = [key(one.configuration) for one in second]
        if ours != others:
            place = next(
                (place for place, pair in enumerate(zip(ours, others, strict=False)) if pair[0] != pair[1]),
                min(len(ours), len(others)),
            )
            self._break(rule, f"proposal {place} differs: {ours[place:][:1]} and {others[place:][:1]}")

    def _require_error(
        self, rule: str, optimizer: Optimizer, configuration: Configuration, told: float | tuple[float, ...]
    ) -> None:
        try:
            optimizer.tell(configuration, told)
        except (KernelwrightError, UsageError):
            return
        self._break(rule, f"telling {told} of {configuration} raised no error of ours")

    def _break(self, rule: str, what: str) -> None:
        raise ConformanceError(
            rule, f"{what} (seed {self._seed}, {self._objectives} objectives, {self._space})"
        )
