"""A space as the axes that other packages' optimisers know: ordered, unordered, or a continuum."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.search._moves import Moves
from kernelwright.space import Choice
from kernelwright.space import Configuration
from kernelwright.space import Range
from kernelwright.space import Space
from kernelwright.space import Value


@dataclass(frozen=True)
class Axis:
    """One parameter. With `size`, its values by place, from 0; `ordered` where neighbouring places are alike.

    Without, a continuum: places are from 0 to 1 on the parameter's own scale.
    """

    name: str
    size: int | None
    ordered: bool


class Axes:
    """All parameters with a choice that fit on an axis, and the way back to a valid configuration.

    What does not fit (arrangements and conditional numbers with too many values to list) is drawn at random.
    What comes back invalid is mended towards a valid configuration, so that constraints hold.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._moves = Moves(space)
        self._values: dict[str, list[Value]] = {}
        self._places: dict[str, dict[tuple[type, Value], int]] = {}
        self._ranges: dict[str, Range] = {}
        axes: list[Axis] = []
        for name in self._moves.names:
            parameter = space.parameters[name]
            values = parameter.values()
            if values is not None:
                ordered = isinstance(parameter, Range) or (
                    isinstance(parameter, Choice) and parameter.ordered
                )
                listed = sorted(values, key=float) if ordered else list(values)  # type: ignore[arg-type]
                self._values[name] = listed
                self._places[name] = {(type(one), one): place for place, one in enumerate(listed)}
                axes.append(Axis(name, len(listed), ordered))
            elif isinstance(parameter, Range):
                self._ranges[name] = parameter
                axes.append(Axis(name, None, True))
        self.axes = tuple(axes)

    def places(self, configuration: Mapping[str, Value]) -> dict[str, float]:
        """The place on each axis."""
        found: dict[str, float] = {}
        for axis in self.axes:
            value = configuration[axis.name]
            if axis.size is None:
                (found[axis.name],) = self._ranges[axis.name].encode(value)
            else:
                found[axis.name] = self._places[axis.name][type(value), value]
        return found

    def configuration(self, places: Mapping[str, float], rng: random.Random) -> tuple[Configuration, bool]:
        """A valid configuration at, or near, these places; and whether it is exactly there."""
        anchor = self._space.sample(rng)
        wanted = dict(anchor)
        for axis in self.axes:
            place = places[axis.name]
            if axis.size is None:
                wanted[axis.name] = _at(self._ranges[axis.name], place)
            else:
                wanted[axis.name] = self._values[axis.name][round(place)]
        valid = self._moves.mend(wanted, anchor, rng)
        return valid, valid == wanted


def _at(parameter: Range, place: float) -> Value:
    inside = min(max(place, 0.0), 1.0)
    if parameter.log:
        number = parameter.low * (parameter.high / parameter.low) ** inside
    else:
        number = parameter.low + inside * (parameter.high - parameter.low)
    nearest = parameter.nearest(number)
    assert nearest is not None
    return nearest
