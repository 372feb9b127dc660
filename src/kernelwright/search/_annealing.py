"""Simulated annealing after a designed start, inside the constraints."""

from __future__ import annotations

import bisect
import math
import random

from kernelwright.search._local import Local
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import START
from kernelwright.space import Space


class Annealing(Local):
    """A spread-out first batch, then annealing over single changes.

    A current configuration is changed in one parameter at a time; a worse result is accepted with probability
    exp(−Δ / temperature) (Kirkpatrick et al., 1983), where Δ is the share of all scores so far that lie
    between the two: ranks, so that a few slow outliers do not set the scale. The temperature falls with each
    score. After `patience` results in a row that brought no better one, the search goes back to the best
    configuration. One objective only.

    Args:
        start: size of the first batch.
        sample: how many valid configurations the batch is chosen from.
        default: whether it begins with the default configuration; None: where a parameter states one.
        temperature: at first, as a share of the scores so far; zero climbs hills only.
        cooling: factor on the temperature after each score.
        patience: results without progress before a restart.
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
        temperature: float = 0.15,
        cooling: float = 0.97,
        patience: int = 10,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives, start=start, sample=sample, default=default)
        self._temperature = temperature
        self._cooling = cooling
        self._patience = patience
        self._idle = 0

    def _move(self, name: str, score: float) -> None:
        if self._current is None or score < self.scores[self._current]:
            self._current, self._idle = name, 0
            return
        self._idle += 1
        if name not in self._batch_keys and self._accepts(name, score, self.scores[self._current]):
            self._current = name
        elif self._idle >= self._patience:
            self._current, self._idle = self._best, 0

    def _accepts(self, name: str, score: float, current: float) -> bool:
        steps = max(len(self._ranked) - len(self._batch), 0)
        temperature = self._temperature * self._cooling**steps
        between = self._place(score) - self._place(current)
        if between <= 0 or temperature <= 0:
            return between <= 0
        chance = math.exp(-between / len(self._ranked) / temperature)
        return random.Random(f"{self.seed}/accept/{name}").random() < chance

    def _place(self, score: float) -> int:
        return bisect.bisect_left(self._ranked, (score, -1, ""))


class LocalSearch(Annealing):
    """Annealing that begins with the default configuration, stated or not: tuning compares with that."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        start: int = START,
        sample: int = SAMPLE,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives, start=start, sample=sample, default=True)
