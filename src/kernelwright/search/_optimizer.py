"""The base of all optimisers: ask and tell."""

from __future__ import annotations

import math
import random
from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import SpaceError
from kernelwright.errors import UsageError
from kernelwright.search._pareto import front
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space
from kernelwright.space import Value

#: How often `_propose` may come back with something that was seen before chance takes over.
_TRIES = 8
_DRAWS = 64
#: As above, where the space cannot be listed afterwards.
_LAST_DRAWS = 2000
#: Spaces up to this size are listed to find the last points, which drawing misses.
_LISTABLE = 100_000


@dataclass(frozen=True)
class Proposal:
    """A configuration to evaluate, and where it came from: `default`, `designed`, `random`, `local`, ….

    `generation` counts from 0 in optimisers that have generations; it orders results and holds nobody up.
    """

    configuration: Configuration
    origin: str
    generation: int = 0


@dataclass(frozen=True)
class Failure:
    """An evaluation without a score: its kind (`build_failed`, `wrong`, …) and the reason in words."""

    kind: str
    reason: str = ""


class Optimizer(ABC):
    """Says what to evaluate next. All scores are minimised.

    The contract that every optimiser keeps, and that `check_optimizer` checks:

    - `ask(n)` returns up to `n` proposals, all valid in the space, none ever asked, told or withheld before.
      Fewer than `n` means that the space is exhausted, as far as it can be listed. It may be called again,
      any number of times, before earlier proposals are told.
    - `tell` takes the result of any valid configuration, asked or not, in any order: finite scores, one an
      objective, or a Failure. Telling one twice is an error; a score that is not finite is a Failure of kind
      `invalid_score`.
    - What is asked is a function of the space, the seed and the calls so far: the same calls in another
      process give the same proposals, and asking for two is asking twice for one.

    Those of this package that keep no state of others (all but the adapters) keep a stronger form of the last
    one: withholding what was asked does the same as asking it.

    Not safe for use from several threads. Subclasses write `_propose` and `_learn`, and `_learn_failure`
    where failures teach them something. They change their state in the `_learn…` methods only, and draw from
    the generator that `_propose` is given: then replays follow by themselves.

    Attributes:
        scores: by key, the first (or only) score of what was told.
        vectors: by key, all its scores.
        failures: by key, what was told without a score.
        pending: by key, what was asked or withheld and is not told yet.
    """

    def __init__(self, space: Space, *, seed: int = 0, objectives: int = 1) -> None:
        if objectives < 1:
            raise UsageError(f"an optimiser needs at least one objective, got objectives={objectives}")
        self.space = space
        self.seed = seed
        self.objectives = objectives
        self.scores: dict[str, float] = {}
        self.vectors: dict[str, tuple[float, ...]] = {}
        self.failures: dict[str, Failure] = {}
        self.pending: dict[str, Configuration] = {}
        self._seen: dict[str, Configuration] = {}
        self._best: str | None = None
        self._left: list[Configuration] | None = None

    def ask(self, n: int = 1) -> list[Proposal]:
        """Up to `n` new proposals."""
        proposals: list[Proposal] = []
        while len(proposals) < n:
            proposal = self._fresh()
            if proposal is None:
                break
            self._take(key(proposal.configuration), proposal.configuration)
            proposals.append(proposal)
        return proposals

    def tell(self, configuration: Mapping[str, Value], outcome: float | Sequence[float] | Failure) -> None:
        """Take the result of one evaluation: a score, or one an objective, or why there is none.

        Raises SpaceError or UnknownNameError for a configuration outside the space, SpaceError when it was
        told before, UsageError for another number of scores than there are objectives.
        """
        name = key(configuration)
        if name in self.pending:
            valid = self.pending[name]
        else:
            valid = self.space.validate(configuration)
            name = key(valid)
        if name in self.vectors or name in self.failures:
            raise SpaceError(f"the result of {name} was told before")
        outcome = self._checked(outcome)
        self._seen[name] = valid
        self.pending.pop(name, None)
        if isinstance(outcome, Failure):
            self.failures[name] = outcome
            self._learn_failure(valid, outcome)
            return
        self.scores[name], self.vectors[name] = outcome[0], outcome
        if self._best is None or outcome[0] < self.scores[self._best]:
            self._best = name
        self._learn(valid, outcome)

    def withhold(self, configuration: Mapping[str, Value]) -> None:
        """Never propose this configuration: it is evaluated elsewhere, or was asked in an earlier sitting.

        Raises SpaceError or UnknownNameError for a configuration outside the space.
        """
        valid = self.space.validate(configuration)
        name = key(valid)
        if name not in self._seen:
            self._take(name, valid)

    @property
    def best(self) -> Configuration | None:
        """The configuration with the lowest (first) score so far; the earliest of equals."""
        return None if self._best is None else dict(self._seen[self._best])

    @property
    def front(self) -> list[Configuration]:
        """The configurations that no other one beats in all objectives, in the order told."""
        names = list(self.vectors)
        return [dict(self._seen[names[index]]) for index in front(list(self.vectors.values()))]

    @abstractmethod
    def _propose(self, rng: random.Random) -> Proposal | None:
        """One valid proposal, or None when there is none left.

        It should be one that `_is_new`: else this is called again with another generator, and after a few
        times a random new configuration is asked instead.
        """

    @abstractmethod
    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        """Take note of scores, already in `scores` and `vectors`."""

    def _learn_failure(self, configuration: Configuration, failure: Failure) -> None:  # noqa: B027
        """Take note of a failure, already in `failures`. Nothing is learned from it unless overridden."""

    def _is_new(self, configuration: Mapping[str, Value]) -> bool:
        return key(configuration) not in self._seen

    def _rng(self, attempt: int = 0) -> random.Random:
        """A generator for the next proposal: it depends on how much was seen, not on how it was drawn."""
        counts = f"{len(self._seen)}/{len(self.vectors)}/{len(self.failures)}"
        return random.Random(f"{self.seed}/{counts}/{attempt}" if attempt else f"{self.seed}/{counts}")

    def _draw_new(self, rng: random.Random) -> Configuration | None:
        """A random configuration not seen before; None when there is none, as far as can be told."""
        count = self.space.count()
        listable = count is not None and count <= _LISTABLE
        # Where most was seen, drawing only wastes time.
        if not listable or (count is not None and 2 * len(self._seen) < count):
            for _ in range(_DRAWS if listable else _LAST_DRAWS):
                drawn = self.space.sample(rng)
                if self._is_new(drawn):
                    return drawn
        if not listable:
            return None
        listed = self.space.configurations() if self._left is None else self._left
        self._left = [one for one in listed if self._is_new(one)]
        return dict(rng.choice(self._left)) if self._left else None

    def _fresh(self) -> Proposal | None:
        generation = 0
        for attempt in range(_TRIES):
            proposal = self._propose(self._rng(attempt))
            if proposal is None or self._is_new(proposal.configuration):
                return proposal
            generation = proposal.generation
        drawn = self._draw_new(self._rng(_TRIES))
        return None if drawn is None else Proposal(drawn, "random", generation)

    def _take(self, name: str, configuration: Configuration) -> None:
        # A copy: what the caller does to a proposal's dict must not change what was asked.
        self._seen[name] = self.pending[name] = dict(configuration)

    def _checked(self, outcome: float | Sequence[float] | Failure) -> tuple[float, ...] | Failure:
        if isinstance(outcome, Failure):
            return outcome
        scores = tuple(map(float, outcome)) if isinstance(outcome, Sequence) else (float(outcome),)
        if len(scores) != self.objectives:
            raise UsageError(
                f"told {len(scores)} scores for {self.objectives} objectives; tell one an objective"
            )
        if not all(map(math.isfinite, scores)):
            said = scores[0] if len(scores) == 1 else scores
            return Failure("invalid_score", f"the score {said} is not finite")
        return scores
