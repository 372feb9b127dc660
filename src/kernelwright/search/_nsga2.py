"""NSGA-II for several objectives, without generations to wait for."""

from __future__ import annotations

import random

from kernelwright.search._genetic import GeneticSearch
from kernelwright.search._optimizer import Proposal
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import START
from kernelwright.space import Space


class NSGA2(GeneticSearch):
    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 2,
        pool_size: int = 16,
        mutate_rate: float | None = None,
        start: int = START,
        sample: int = SAMPLE,
        default: bool | None = None,
        step_share: float = 0.3,
    ) -> None:
        super().__init__(
            space,
            seed=seed,
            objectives=objectives,
            pool_size=pool_size,
            cull_size=0,
            mutate_rate=mutate_rate,
            start=start,
            sample=sample,
            default=default,
        )
        self._step_share = step_share

    def _propose(self, rng: random.Random) -> Proposal | None:
        generation = len(self._seen) // self._pool_size
        if generation > 0 and self._pool and self._first() is None and rng.random() < self._step_share:
            step = self._moves.step(self._parent(rng), rng, self._is_new)
            if step is not None:
                return Proposal(step, "local", generation)
        return super()._propose(rng)
