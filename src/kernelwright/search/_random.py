"""Random search without replacement: what every other optimiser has to beat."""

from __future__ import annotations

import random

from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.space import Configuration


class RandomSearch(Optimizer):
    """Valid configurations drawn at random, each once."""

    def _propose(self, rng: random.Random) -> Proposal | None:
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random")

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        """Chance has no memory."""
