"""The default optimiser: the model while it pays, else the search without one."""

from __future__ import annotations

import random

from kernelwright.search._annealing import Annealing
from kernelwright.search._nsga2 import NSGA2
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.search._pairwise import ADDITIVE
from kernelwright.search._pairwise import BETA
from kernelwright.search._pairwise import FIRST
from kernelwright.search._pairwise import PairwiseGP
from kernelwright.search._start import SAMPLE
from kernelwright.space import Configuration
from kernelwright.space import Space

#: With more results than this, the search goes on without the model, whose cost grows with their square.
MOST_RESULTS = 500
#: What one proposal of the model costs, about, in seconds: faster evaluations are better spent on evaluating.
ASK_SECONDS = 0.003


class AutoSearch(PairwiseGP):
    """The default: a designed start, then the model of `PairwiseGP` while it pays.

    It does not where evaluations are faster than the model, as `seconds` or `expect` say, and after
    `MOST_RESULTS` results; there the search goes on by annealing, or by NSGA-II for several objectives, from
    all that was found until then. In spaces too large to list, the model chooses among a sample and the
    neighbours of the best.

    Args:
        seconds: what one evaluation takes, if known.
        options: those of `PairwiseGP`.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        seconds: float | None = None,
        start: int = FIRST,
        sample: int = SAMPLE,
        default: bool | None = None,
        beta: float = BETA,
        additive: float = ADDITIVE,
    ) -> None:
        super().__init__(
            space,
            seed=seed,
            objectives=objectives,
            start=start,
            sample=sample,
            default=default,
            beta=beta,
            additive=additive,
        )
        self._seconds = seconds
        plain: Optimizer
        if objectives == 1:
            plain = Annealing(space, seed=seed, start=0)
        else:
            plain = NSGA2(space, seed=seed, objectives=objectives, start=0)
        # It sees all that is seen here.
        plain.scores, plain.vectors, plain.failures = self.scores, self.vectors, self.failures
        plain.pending, plain._seen = self.pending, self._seen
        self._plain = plain

    def expect(self, seconds: float) -> None:
        """Say what one evaluation takes: where that is less than a proposal costs, the model is left out."""
        self._seconds = seconds

    @property
    def modelled(self) -> bool:
        """Whether proposals after the first batch come from the model."""
        cheap = self._seconds is not None and self._seconds < ASK_SECONDS
        return not cheap and len(self.vectors) + len(self.failures) <= MOST_RESULTS

    def _propose(self, rng: random.Random) -> Proposal | None:
        first = self._first()
        if first is not None:
            return first
        if self.modelled:
            return super()._propose(rng)
        self._plain._best = self._best
        return self._plain._propose(rng)

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        self._plain._best = self._best
        self._plain._learn(configuration, scores)
        super()._learn(configuration, scores)

    def _learn_failure(self, configuration: Configuration, failure: Failure) -> None:
        self._plain._learn_failure(configuration, failure)
        super()._learn_failure(configuration, failure)
