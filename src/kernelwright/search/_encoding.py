"""A space as numpy columns: how alike configurations are, parameter by parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.space import Parameter
from kernelwright.space import Space
from kernelwright.space import Value

#: A parameter with more values than this gets coordinates instead of a table of distances.
MAX_TABLE = 256
#: How far apart two values are for merely being different, beside the distance on their scale.
DIFFERENT = 0.5

Floats = NDArray[np.float32]
Places = NDArray[np.intp]
_Number = TypeVar("_Number", np.float32, np.intp)


@dataclass
class Points:
    """Configurations as columns: `places[j]` the place of each one's value in the table of column `j`,
    `coordinates[j]` (points × numbers) where a column has no table. Of each pair one is None."""

    places: list[Places | None]
    coordinates: list[Floats | None]
    count: int

    def identities(self) -> list[bytes]:
        """For each point a text that equal points share, and no others."""
        columns = [one[:, None] for one in self.places if one is not None]
        parts = [np.concatenate(columns, axis=1).astype(np.uint8)] if columns else []
        parts += [one.view(np.uint8) for one in self.coordinates if one is not None]
        if not parts:
            return [b""] * self.count
        whole = np.ascontiguousarray(np.concatenate(parts, axis=1))
        return [row.tobytes() for row in whole]

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Points:
        """Some of the points, in the order of `rows`."""
        chosen = np.asarray(rows, np.intp)
        return Points(
            [None if one is None else one[chosen] for one in self.places],
            [None if one is None else one[chosen] for one in self.coordinates],
            len(chosen),
        )

    def slice(self, part: slice) -> Points:
        """Neighbouring points, as views."""
        return Points(
            [None if one is None else one[part] for one in self.places],
            [None if one is None else one[part] for one in self.coordinates],
            len(range(*part.indices(self.count))),
        )

    def extended(self, other: Points) -> Points:
        """These points, then the others."""
        return Points(
            [_joined(a, b) for a, b in zip(self.places, other.places, strict=True)],
            [_joined(a, b) for a, b in zip(self.coordinates, other.coordinates, strict=True)],
            self.count + other.count,
        )


class Encoding:
    """The parameters of a space that have a choice, each as one column.

    The distance of two values of one parameter is `DIFFERENT`, unless they are the same, plus their distance
    on the parameter's scale, which is at most one: for positive numbers the difference of the logarithms,
    for other numbers that of the values, for all else the L1 distance of the parameter's own encoding; to an
    absent value (None) it is one. Logarithms, whether asked for or not: in kernels and compilers positive
    numbers are sizes and counts, where the step from 1 to 2 means more than that from 31 to 32.

    Args:
        different: see `DIFFERENT`.
    """

    def __init__(self, space: Space, *, different: float = DIFFERENT) -> None:
        self._different = np.float32(different)
        parameters = {name: one for name, one in space.parameters.items() if one.count != 1}
        self.names: tuple[str, ...] = tuple(parameters)
        self._parameters = tuple(parameters.values())
        self.tables: list[Floats | None] = []
        self._scales: list[Floats | None] = []
        self._where: list[dict[tuple[type, Value], int] | None] = []
        for parameter in self._parameters:
            values = parameter.values() if (parameter.count or math.inf) <= MAX_TABLE else None
            scale = None if values is None else _coordinates(parameter, values)
            self._scales.append(scale)
            self.tables.append(None if values is None or scale is None else self._table(values, scale))
            self._where.append(
                None if values is None else {(type(one), one): place for place, one in enumerate(values)}
            )

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.names)

    def points(self, configurations: Sequence[Mapping[str, Value]]) -> Points:
        """Configurations, which must be valid, as columns."""
        places: list[Places | None] = []
        coordinates: list[Floats | None] = []
        for name, parameter, where in zip(self.names, self._parameters, self._where, strict=True):
            values = [configuration[name] for configuration in configurations]
            if where is not None:
                places.append(np.array([where[type(one), one] for one in values], np.intp))
                coordinates.append(None)
            else:
                places.append(None)
                coordinates.append(_coordinates(parameter, values))
        return Points(places, coordinates, len(configurations))

    def distances(self, column: int, left: Points, right: Points) -> Floats:
        """How far apart the values of one parameter are: left × right."""
        table = self.tables[column]
        if table is not None:
            near: Floats = table[left.places[column]][:, right.places[column]]
            return near
        here, there = left.coordinates[column], right.coordinates[column]
        assert here is not None
        assert there is not None
        far: Floats = np.abs(here[:, None, :] - there[None, :, :]).sum(2)
        far += self._different * (far > 0)
        return far

    def total(self, left: Points, right: Points) -> Floats:
        """The sum of the distances over all parameters: left × right."""
        far = np.zeros((left.count, right.count), np.float32)
        for column in range(self.width):
            far += self.distances(column, left, right)
        return far

    def coordinates(self, points: Points) -> Floats:
        """Points × numbers: the scales of all parameters, one after the other."""
        columns: list[Floats] = []
        for scale, places, own in zip(self._scales, points.places, points.coordinates, strict=True):
            if scale is not None:
                columns.append(scale[places])
            else:
                assert own is not None
                columns.append(own)
        return np.concatenate(columns, axis=1) if columns else np.zeros((points.count, 0), np.float32)

    def _table(self, values: Sequence[Value], where: Floats) -> Floats:
        far: Floats = np.abs(where[:, None, :] - where[None, :, :]).sum(2)
        absent = np.array([one is None for one in values])
        far[absent[:, None] != absent[None, :]] = 1
        far += self._different * (1 - np.eye(len(values), dtype=np.float32))
        return far


def _coordinates(parameter: Parameter, values: Sequence[Value]) -> Floats:
    """Values as numbers, such that the L1 distance of two is at most one."""
    listed = parameter.values()
    scale = [one for one in (listed or ()) if one is not None]
    if scale and all(isinstance(one, int | float) and not isinstance(one, bool) for one in scale):
        numbers = np.array([float(one) for one in scale])  # type: ignore[arg-type]
        given = np.array([math.nan if one is None else float(one) for one in values])  # type: ignore[arg-type]
        if numbers.min() > 0:
            numbers, given = np.log(numbers), np.log(given)
        span = numbers.max() - numbers.min()
        scaled = (given - numbers.min()) / span if span > 0 else np.zeros(len(given))
        return np.nan_to_num(scaled).astype(np.float32)[:, None]
    return np.array([parameter.encode(one) for one in values], np.float32).reshape(len(values), -1)


def _joined(left: NDArray[_Number] | None, right: NDArray[_Number] | None) -> NDArray[_Number] | None:
    return None if left is None or right is None else np.concatenate([left, right])
