"""What a model chooses among: the whole space where it can be listed, else a sample of it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from collections.abc import Mapping

from kernelwright.search._encoding import Encoding
from kernelwright.search._encoding import Points
from kernelwright.space import Configuration
from kernelwright.space import Space
from kernelwright.space import Value

#: Spaces up to this size are candidates as a whole.
WHOLE = 20_000
#: How many are drawn where the space is larger.
SAMPLE = 2000


class Candidates:
    """Configurations in a fixed order, each with a row, as columns of the encoding.

    Args:
        space: where they come from.
        encoding: its columns.
        seed: of the sample; where the space is listed, it changes nothing.
    """

    def __init__(self, space: Space, encoding: Encoding, seed: str) -> None:
        count = space.count()
        #: Whether these are all that there are.
        self.whole = count is not None and count <= WHOLE
        self._encoding = encoding
        self.configurations: list[Configuration] = []
        self._rows: dict[bytes, int] = {}
        if self.whole:
            drawn = list(space.configurations())
        else:
            rng = random.Random(seed)
            drawn = [space.sample(rng) for _ in range(SAMPLE)]
        self.points: Points = encoding.points(drawn[:1]).take([])
        self.add(drawn)

    def __len__(self) -> int:
        return len(self.configurations)

    def row(self, configuration: Mapping[str, Value]) -> int | None:
        """The row of a configuration; None where it is not among them."""
        return self._rows.get(self._encoding.points([configuration]).identities()[0])

    def add(self, configurations: Iterable[Configuration]) -> Points:
        """Take in those that are not there yet; returns them as columns."""
        given = list(configurations)
        points = self._encoding.points(given)
        fresh: list[int] = []
        for place, identity in enumerate(points.identities()):
            if identity not in self._rows:
                self._rows[identity] = len(self._rows)
                fresh.append(place)
        self.configurations += [given[place] for place in fresh]
        points = points.take(fresh)
        self.points = self.points.extended(points)
        return points
