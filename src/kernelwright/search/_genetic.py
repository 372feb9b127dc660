"""A genetic search without generations to wait for."""

from __future__ import annotations

import random

from kernelwright.errors import UsageError
from kernelwright.search._moves import Moves
from kernelwright.search._optimizer import Proposal
from kernelwright.search._pareto import crowding
from kernelwright.search._pareto import fronts
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import START
from kernelwright.search._start import Started
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space


class GeneticSearch(Started):
    """A pool of the fittest, whose children are evaluated.

    The first `pool_size` proposals are a designed batch, then random ones. Then each is a child of two
    parents, chosen by tournament of two from the pool: every parameter from one or the other, then changed
    with probability `mutate_rate`, to a neighbouring value or (one time in four) to any, which is also how
    parameters are knocked out. The pool is what is left of all results when the worst are culled: the best
    `pool_size − cull_size` are parents.

    Nobody waits: a child is bred from the pool as it is when someone asks. The generation of a proposal is
    how many times `pool_size` proposals came before it. With several objectives, the fitness is the rank of
    the front, then the crowding distance.

    Args:
        pool_size: how many proposals a generation has.
        cull_size: how many of that many are not parents; by default half.
        mutate_rate: the probability that a parameter of a child is changed; by default 1 / parameters.
        start: size of the designed batch, at most `pool_size`.
        sample: how many valid configurations the batch is chosen from.
        default: whether it begins with the default configuration; None: where a parameter states one.

    Raises UsageError for sizes that leave no parents, or a rate outside [0, 1].
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        pool_size: int = 16,
        cull_size: int | None = None,
        mutate_rate: float | None = None,
        start: int = START,
        sample: int = SAMPLE,
        default: bool | None = None,
    ) -> None:
        culled = pool_size // 2 if cull_size is None else cull_size
        if pool_size < 2 or not 0 <= culled < pool_size:
            raise UsageError(
                f"a pool of {pool_size} cannot cull {culled}: pool_size must be at least 2, cull_size at "
                "least 0 and below pool_size"
            )
        if mutate_rate is not None and not 0 <= mutate_rate <= 1:
            raise UsageError(f"mutate_rate is a probability, got {mutate_rate}")
        super().__init__(
            space,
            seed=seed,
            objectives=objectives,
            start=min(start, pool_size),
            sample=sample,
            default=default,
        )
        self._moves = Moves(space)
        self._pool_size = pool_size
        self._survivors = pool_size - culled
        self._mutate_rate = 1 / max(len(self._moves.names), 1) if mutate_rate is None else mutate_rate
        #: The fittest first: keys.
        self._pool: list[str] = []

    def _propose(self, rng: random.Random) -> Proposal | None:
        generation = len(self._seen) // self._pool_size
        first = self._first()
        if first is not None:
            return Proposal(first.configuration, first.origin, generation)
        if generation > 0 and self._pool:
            left, right = self._parent(rng), self._parent(rng)
            child = self._moves.cross(left, right, rng)
            child = self._moves.mutate(child, self._mutate_rate, rng)
            return Proposal(child, "bred", generation)
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random", generation)

    def _parent(self, rng: random.Random) -> Configuration:
        place = min(rng.randrange(len(self._pool)), rng.randrange(len(self._pool)))
        return self._seen[self._pool[place]]

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        self._pool.append(key(configuration))
        self._pool = fittest(self._pool, [self.vectors[name] for name in self._pool])[: self._survivors]


def fittest(names: list[str], vectors: list[tuple[float, ...]]) -> list[str]:
    """Ordered by front, then by crowding distance, then by age; with one objective, by score."""
    if len(vectors[0]) == 1:
        return [names[place] for place in sorted(range(len(names)), key=vectors.__getitem__)]
    ordered: list[str] = []
    for rank in fronts(vectors):
        distances = crowding([vectors[place] for place in rank])
        by_room = sorted(zip(rank, distances, strict=True), key=lambda pair: -pair[1])
        ordered.extend(names[place] for place, _ in by_room)
    return ordered
