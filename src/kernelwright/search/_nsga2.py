"""NSGA-II for several objectives, without generations to wait for."""

from __future__ import annotations

import random

from kernelwright.errors import UsageError
from kernelwright.search._genetic import GeneticSearch
from kernelwright.search._optimizer import Proposal
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import START
from kernelwright.space import Space


class NSGA2(GeneticSearch):
    """NSGA-II (Deb et al., 2002), one child at a time.

    Parents are chosen by tournament of two on front, then crowding distance, from the `pool_size` best
    results so far in that order. A child is crossed and changed as in `GeneticSearch`; with probability
    `step_share` it is a parent with one parameter changed instead, which follows a front along a single
    parameter. The first batch is designed. Works for one objective as well.

    Args:
        pool_size: how many parents there are, and proposals in a generation.
        mutate_rate: the probability that a parameter of a child is changed; by default 1 / parameters.
        start: size of the designed batch, at most `pool_size`.
        sample: how many valid configurations the batch is chosen from.
        default: whether it begins with the default configuration; None: where a parameter states one.
        step_share: how many of the children are single changes.

    Raises UsageError for a pool below 2, or a probability outside [0, 1].
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 2,
        pool_size: int = 10,
        mutate_rate: float | None = None,
        start: int = START,
        sample: int = SAMPLE,
        default: bool | None = None,
        step_share: float = 0.5,
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
        if not 0 <= step_share <= 1:
            raise UsageError(f"step_share is a probability, got {step_share}")
        self._step_share = step_share

    def _propose(self, rng: random.Random) -> Proposal | None:
        generation = len(self._seen) // self._pool_size
        if generation > 0 and self._pool and self._first() is None and rng.random() < self._step_share:
            step = self._moves.step(self._parent(rng), rng, self._is_new)
            if step is not None:
                return Proposal(step, "local", generation)
        return super()._propose(rng)
