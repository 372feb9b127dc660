"""The base of all optimisers: ask and tell."""

from __future__ import annotations

import math
import random
from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.errors import SpaceError
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space
from kernelwright.space import Value

_DRAWS = 64
#: Spaces up to this size are listed to find the last points, which drawing misses.
_LISTABLE = 20_000


@dataclass(frozen=True)
class Proposal:
    """A configuration to evaluate, and where it came from: `default`, `designed`, `random`, `local`."""

    configuration: Configuration
    origin: str


@dataclass(frozen=True)
class Failure:
    """An evaluation without a score: its kind (`build_failed`, `wrong`, …) and the reason in words."""

    kind: str
    reason: str = ""


class Optimizer(ABC):
    """Says what to evaluate next. Scores are minimised.

    The contract that every optimiser keeps:

    - `ask(n)` returns up to `n` proposals, all valid in the space, none ever asked, told or withheld before.
      Fewer than `n` means that the space is exhausted, as far as it can be listed. It may be called again
      before earlier proposals are told.
    - `tell` takes the result of any valid configuration, asked or not, in any order: a finite score or a
      Failure. Telling one twice is an error; a score that is not finite is a Failure of kind `invalid_score`.
    - What is asked is a function of the space, the seed and the calls so far: replaying the same asks and
      tells in another process gives the same next proposals.

    Not safe for use from several threads. Subclasses write `_propose` and `_learn`.
    """

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self.space = space
        self.seed = seed
        self.scores: dict[str, float] = {}
        self.failures: dict[str, Failure] = {}
        self._seen: dict[str, Configuration] = {}

    def ask(self, n: int = 1) -> list[Proposal]:
        """Up to `n` new proposals."""
        proposals: list[Proposal] = []
        while len(proposals) < n:
            proposal = self._propose(self._rng())
            if proposal is None:
                break
            self.withhold(proposal.configuration)
            proposals.append(proposal)
        return proposals

    def tell(self, configuration: Mapping[str, Value], outcome: float | Failure) -> None:
        """Take the result of one evaluation.

        Raises SpaceError or UnknownNameError for a configuration outside the space, SpaceError when it was
        told before.
        """
        valid = self.space.validate(configuration)
        name = key(valid)
        if name in self.scores or name in self.failures:
            raise SpaceError(f"the result of {name} was told before")
        self._seen[name] = valid
        if not isinstance(outcome, Failure) and not math.isfinite(outcome):
            outcome = Failure("invalid_score", f"the score {outcome} is not finite")
        if isinstance(outcome, Failure):
            self.failures[name] = outcome
        else:
            self.scores[name] = float(outcome)
            self._learn(valid, float(outcome))

    def withhold(self, configuration: Mapping[str, Value]) -> None:
        """Never propose this configuration: it is evaluated elsewhere, or was asked in an earlier sitting."""
        self._seen.setdefault(key(configuration), dict(configuration))

    @property
    def best(self) -> Configuration | None:
        """The configuration with the lowest score so far; the earliest of equals."""
        if not self.scores:
            return None
        return dict(self._seen[min(self.scores, key=self.scores.__getitem__)])

    @abstractmethod
    def _propose(self, rng: random.Random) -> Proposal | None:
        """One proposal that `_is_new`, or None when there is none left."""

    @abstractmethod
    def _learn(self, configuration: Configuration, score: float) -> None:
        """Take note of a score."""

    def _is_new(self, configuration: Mapping[str, Value]) -> bool:
        return key(configuration) not in self._seen

    def _rng(self) -> random.Random:
        """A generator for the next proposal: it depends on how much was seen, not on how it was drawn."""
        return random.Random(f"{self.seed}/{len(self._seen)}/{len(self.scores)}/{len(self.failures)}")

    def _draw_new(self, rng: random.Random) -> Configuration | None:
        """A random configuration not seen before; None when there is none, as far as can be told."""
        for _ in range(_DRAWS):
            drawn = self.space.sample(rng)
            if self._is_new(drawn):
                return drawn
        count = self.space.count()
        if count is None or count > _LISTABLE:
            return None
        left = [one for one in self.space.configurations() if self._is_new(one)]
        return rng.choice(left) if left else None
