"""The first batch of a search without a model: spread out, central first."""

from __future__ import annotations

import random

from kernelwright.search._design import designed
from kernelwright.search._encoding import Encoding
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.space import key
from kernelwright.space import Space

START = 8
SAMPLE = 500


def first_batch(
    space: Space, seed: int, size: int = START, sample: int = SAMPLE, *, default: bool | None = None
) -> list[Proposal]:
    """Up to `size` configurations: the most central of a sample, then by maximin distance.

    The biggest single gain of a search on recorded spaces. `default`: whether the default configuration comes
    first; None means where a parameter states one, as a default that nobody stated is only a corner.
    """
    rng = random.Random(f"{seed}/design")
    count = space.count()
    if count is not None and count <= sample:
        pool = list(space.configurations())
    else:
        pool = [space.sample(rng) for _ in range(sample)]
    rng.shuffle(pool)
    if default is None:
        default = any(parameter.stated for parameter in space.parameters.values())
    first = [Proposal(space.default, "default")] if default and size > 0 else []
    encoding = Encoding(space)
    known = encoding.points([one.configuration for one in first]) if first else None
    rows = designed(encoding, encoding.points(pool), size - len(first), known)
    return [*first, *(Proposal(pool[row], "designed") for row in rows)]


class Started(Optimizer):
    """An optimiser whose first proposals are a designed batch.

    Args:
        start: size of that batch.
        sample: how many valid configurations it is chosen from.
        default: whether it begins with the default configuration; None: where a parameter states one.
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
        super().__init__(space, seed=seed, objectives=objectives)
        self._batch = first_batch(space, seed, start, sample, default=default)
        self._batch_keys = [key(one.configuration) for one in self._batch]
        self._begun = 0

    def _first(self) -> Proposal | None:
        """The next of the first batch that is new; None when all were seen."""
        while self._begun < len(self._batch) and self._batch_keys[self._begun] in self._seen:
            self._begun += 1
        return self._batch[self._begun] if self._begun < len(self._batch) else None
