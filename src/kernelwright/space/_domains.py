"""Domains: a parameter's values by place, with what a search asks of them often, worked out once."""

from __future__ import annotations

from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Value


class Domain:
    """A named parameter; where its values can be listed, each has a place, and lookups are dictionaries."""

    def __init__(self, name: str, parameter: Parameter) -> None:
        self.name = name
        self.parameter = parameter
        self.values = parameter.values()
        self.weights = parameter.weights() if self.values is not None else None
        listed = self.values or ()
        self.places: dict[tuple[type, Value], int] = {
            (type(value), value): place for place, value in enumerate(listed)
        }
        self._codes: list[tuple[float, ...] | None] = [None] * len(listed)
        self._near: list[tuple[int, ...] | None] = [None] * len(listed)

    def __len__(self) -> int:
        return len(self.values or ())

    def place(self, value: object) -> int:
        """The place of a value, -1 for one that is not listed; a list counts as the tuple it was."""
        if isinstance(value, list):
            value = tuple(value)
        try:
            return self.places.get((type(value), value), -1)  # type: ignore[arg-type]
        except TypeError:  # not hashable
            return -1

    def code(self, value: Value) -> tuple[float, ...]:
        """The encoding of a value."""
        if self.values is None:
            return self.parameter.encode(value)
        place = self.place(value)
        if place < 0:
            return self.parameter.encode(value)
        code = self._codes[place]
        if code is None:
            code = self._codes[place] = self.parameter.encode(value)
        return code

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """The neighbours of a value."""
        place = self.place(value)
        if place < 0:
            return self.parameter.neighbours(value)
        assert self.values is not None
        return tuple([self.values[near] for near in self.near(place)])

    def near(self, place: int) -> tuple[int, ...]:
        """The places of the neighbours of the value at `place`."""
        near = self._near[place]
        if near is None:
            assert self.values is not None
            others = self.parameter.neighbours(self.values[place])
            near = self._near[place] = tuple(self.place(other) for other in others)
        return near
