"""What local searches share: a current configuration, its unseen neighbours, and where else to look."""

from __future__ import annotations

import bisect
import random
from abc import abstractmethod

from kernelwright.errors import UsageError
from kernelwright.search._moves import Moves
from kernelwright.search._optimizer import Proposal
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import START
from kernelwright.search._start import Started
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space

#: How many jumps are tried where all single steps were seen.
_JUMPS = 4


class Local(Started):
    """Proposes unseen neighbours of `_current`; with none left, of the best configurations that have some.

    Subclasses write `_move`, which moves or leaves `_current` when a score comes. Results may come in any
    order and late: each is weighed against what is current when it comes. Failures are only avoided.

    One objective only: raises UsageError for more.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        start: int = START,
        sample: int = SAMPLE,
        default: bool | None = None,
    ) -> None:
        if objectives != 1:
            raise UsageError(
                f"{type(self).__name__} takes one objective, got objectives={objectives}; for several use "
                "'nsga2' or 'genetic'"
            )
        super().__init__(space, seed=seed, start=start, sample=sample, default=default)
        self._moves = Moves(space)
        self._current: str | None = None
        #: All that has a score, best first: (score, order told, key).
        self._ranked: list[tuple[float, int, str]] = []
        self._exhausted: set[str] = set()

    @abstractmethod
    def _move(self, name: str, score: float) -> None:
        """Take note of a score, already ranked."""

    def _propose(self, rng: random.Random) -> Proposal | None:
        first = self._first()
        if first is not None:
            return first
        token = rng.getrandbits(64)
        if self._current is not None:
            found = self._around(self._current, token, rng)
            if found is not None:
                return Proposal(found, "local")
            for _, _, name in self._ranked:
                found = self._near(name, token)
                if found is not None:
                    return Proposal(found, "local")
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random")

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        name = key(configuration)
        bisect.insort(self._ranked, (scores[0], len(self._ranked), name))
        self._move(name, scores[0])

    def _around(self, name: str, token: int, rng: random.Random) -> Configuration | None:
        here = self._seen[name]
        found = self._near(name, token)
        for _ in range(0 if found is not None else _JUMPS):
            there = self._moves.jump(here, rng)
            if self._is_new(there):
                return there
        return found

    def _near(self, name: str, token: int) -> Configuration | None:
        if name in self._exhausted:
            return None
        # A generator of its own: what is remembered as exhausted must not change what is drawn elsewhere.
        rng = random.Random(f"{token}/{name}")
        step = self._moves.step(self._seen[name], rng, self._is_new)
        if step is None:
            self._exhausted.add(name)
        return step
