"""Hill climbing with restarts, after a designed start."""

from __future__ import annotations

from kernelwright.search._local import Local
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import START
from kernelwright.space import Space


class HillClimbing(Local):
    """A spread-out first batch, then climbs: single changes of the current configuration; the better wins.

    A climb ends when `patience` results in a row were no better. The next one begins in turn at the best
    configuration that has unseen neighbours, and at a random one. One objective only.

    Args:
        start: size of the first batch.
        sample: how many valid configurations the batch is chosen from.
        default: whether it begins with the default configuration; None: where a parameter states one.
        patience: how many results in a row without a better one end a climb.
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
        patience: int = 15,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives, start=start, sample=sample, default=default)
        self._patience = patience
        self._idle = 0
        self._climbs = 0

    def _move(self, name: str, score: float) -> None:
        if self._current is None or score < self.scores[self._current]:
            self._current, self._idle = name, 0
            return
        self._idle += 1
        if self._idle >= self._patience:
            self._climbs += 1
            self._idle = 0
            # Without a current one, the next proposals are random, and the first of them to be told is it.
            self._current = self._best if self._climbs % 2 else None
