"""Parameters: each kind owns its values, its random draw, its neighbours and its encoding."""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC
from abc import abstractmethod
from collections.abc import Sequence
from typing import cast
from typing import TypeAlias

from kernelwright.errors import SpaceError

#: What can be listed in a choice, and what arrangements are made of.
Scalar: TypeAlias = int | float | str | bool
#: What a parameter may take. Plain, so that a configuration survives JSON (which turns tuples into lists;
#: `Space.validate` turns them back). None: knocked out, or not active. A tuple: a permutation or a subset.
Value: TypeAlias = Scalar | tuple[Scalar, ...] | None

#: A parameter with more values than this is never listed out.
MAX_LISTED = 4096
#: Up to this many other values, all of them are neighbours; above, steps of growing size are.
MAX_NEIGHBOURS = 16


def same(left: object, right: object) -> bool:
    """Equal and of the same type: `1`, `1.0` and `True` are three values."""
    return type(left) is type(right) and left == right


def _number(value: Value) -> float:
    """A value that is known to be a number."""
    return float(cast("float", value))


class Parameter(ABC):
    """One thing that can be chosen. Immutable."""

    default: Value
    #: Whether the default was stated, not merely the first value.
    stated: bool

    @abstractmethod
    def contains(self, value: object) -> bool:
        """Whether `value` may be chosen."""

    @abstractmethod
    def sample(self, rng: random.Random) -> Value:
        """One value at random; on the parameter's scale, where it has one."""

    @abstractmethod
    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """Other values that a local search tries from `value`, the closest first."""

    @abstractmethod
    def values(self) -> tuple[Value, ...] | None:
        """All values in order, or None when there are more than `MAX_LISTED`."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many values there are, or None for a continuum."""

    @abstractmethod
    def encode(self, value: Value) -> tuple[float, ...]:
        """`value` as numbers in [0, 1], such that the L1 distance of two values is at most one."""

    @abstractmethod
    def nearest(self, value: object) -> Value | None:
        """The valid value closest to an invalid one, or None when nothing is close."""

    def normalise(self, value: Value) -> Value:
        """A value as JSON gives it back, as this parameter hands it out."""
        return value

    def weights(self) -> tuple[float, ...] | None:
        """How likely each of `values` is to be drawn, relative to the others; None when all are equally."""
        return None


def _checked_default(kind: str, default: Value | None, first: Value, parameter: Parameter) -> Value:
    if default is None:
        return first
    if not parameter.contains(default):
        raise SpaceError(f"{kind}: the default {default!r} is not one of its values")
    return default


class Choice(Parameter):
    """One of a few listed values. Numbers are ordered, with distance by rank or, with `log`, by logarithm."""

    def __init__(self, values: Sequence[Scalar], *, default: Value = None, log: bool = False) -> None:
        if isinstance(values, str):
            raise SpaceError(f"choice: give a list of values, not the string {values!r}")
        self._values = tuple(values)
        if not self._values:
            raise SpaceError("choice: an empty list leaves nothing to choose; give at least one value")
        self._place: dict[tuple[type, object], int] = {}
        for index, value in enumerate(self._values):
            if not isinstance(value, int | float | str | bool):
                raise SpaceError(f"choice: {value!r} is not a number, a string or a bool")
            if isinstance(value, float) and not math.isfinite(value):
                raise SpaceError(f"choice: {value!r} is not a finite number")
            if self._place.setdefault((type(value), value), index) != index:
                raise SpaceError(f"choice: {value!r} is listed twice")
        self.ordered = all(isinstance(v, int | float) and not isinstance(v, bool) for v in self._values)
        self.log = log
        if log and not (self.ordered and all(float(value) > 0 for value in self._values)):
            raise SpaceError(f"choice: a log scale needs positive numbers, got {list(self._values)}")
        self.stated = default is not None
        self.default = _checked_default("choice", default, self._values[0], self)
        self._ranked = sorted(self._values, key=float) if self.ordered else list(self._values)
        self._ranks: dict[tuple[type, object], int] = {
            (type(value), value): rank for rank, value in enumerate(self._ranked)
        }

    def __repr__(self) -> str:
        return f"Choice({list(self._values)}, default={self.default!r})"

    def contains(self, value: object) -> bool:
        """Whether `value` is listed, with the same type."""
        return value.__hash__ is not None and (type(value), value) in self._place

    def sample(self, rng: random.Random) -> Value:
        """Any listed value, all equally likely."""
        return rng.choice(self._values)

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """All other values; numbers by distance in rank."""
        others = [known for known in self._values if not same(known, value)]
        if self.ordered:
            place = self._rank(value)
            others.sort(key=lambda other: (abs(self._rank(other) - place), self._rank(other)))
        return tuple(others)

    def values(self) -> tuple[Value, ...] | None:
        """The listed values, as listed."""
        return self._values

    @property
    def count(self) -> int:
        """How many values are listed."""
        return len(self._values)

    def encode(self, value: Value) -> tuple[float, ...]:
        """A scaled rank or logarithm for numbers; half of a one-hot vector otherwise."""
        if len(self._values) == 1:
            return (0.0,)
        if not self.ordered:
            return tuple(0.5 if same(value, known) else 0.0 for known in self._values)
        if self.log:
            low, high = math.log(float(self._ranked[0])), math.log(float(self._ranked[-1]))
            return ((math.log(_number(value)) - low) / (high - low),)
        return (self._rank(value) / (len(self._ranked) - 1),)

    def nearest(self, value: object) -> Value | None:
        """The closest number, or the value that is written the same or nearly so."""
        for known in self._values:
            if str(known) == str(value) or known == value:
                return known
        if self.ordered and isinstance(value, int | float):
            return min(self._values, key=lambda known: abs(float(known) - float(value)))
        import difflib

        texts = {str(known): known for known in self._values}
        close = difflib.get_close_matches(str(value), texts, n=1)
        return texts[close[0]] if close else None

    def _rank(self, value: Value) -> int:
        return self._ranks[type(value), value]


class Flag(Choice):
    """On or off."""

    def __init__(self, *, default: bool = False) -> None:
        super().__init__((False, True), default=default)

    def __repr__(self) -> str:
        return f"Flag(default={self.default!r})"


class Range(Parameter):
    """Numbers from `low` to `high`, both included.

    Integers in steps of `step` (1 unless given); floats in steps, or a continuum when there is no step.
    With `log`, draws and distances are on the logarithm.
    """

    def __init__(
        self,
        low: float,
        high: float,
        step: float | None = None,
        *,
        log: bool = False,
        default: float | None = None,
    ) -> None:
        self.integer = all(isinstance(number, int) for number in (low, high, 1 if step is None else step))
        if not (math.isfinite(low) and math.isfinite(high)) or low > high:
            raise SpaceError(f"range: from {low} to {high} is empty; the first must not be above the second")
        if step is not None and not step > 0:
            raise SpaceError(f"range: the step must be above zero, got {step}")
        if log and low <= 0:
            raise SpaceError(f"range: a log scale needs positive numbers, got a range from {low}")
        self.low, self.high, self.log = low, high, log
        self.step = 1 if self.integer and step is None else step
        self._steps = None if self.step is None else math.floor((high - low) / self.step + 1e-9)
        self.stated = default is not None
        self.default = _checked_default("range", default, low if self.integer else float(low), self)

    def __repr__(self) -> str:
        step = "" if self.step is None else f", step={self.step}"
        log = ", log=True" if self.log else ""
        return f"Range({self.low}, {self.high}{step}{log}, default={self.default!r})"

    def contains(self, value: object) -> bool:
        """Whether `value` is a number on the grid; an integer range takes integers only."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.integer and not isinstance(value, int):
            return False
        if not self.low <= value <= self.high:
            return False
        return self._steps is None or _number(self._at(self._index(value))) == value

    def sample(self, rng: random.Random) -> Value:
        """A number drawn evenly on the range's scale."""
        if self.log or self._steps is None:
            return self._place(rng.random())
        return self._at(rng.randint(0, self._steps))

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """All other numbers where there are few; else those 1, 2, 4, … steps away."""
        listed = self.values()
        if listed is not None and len(listed) <= MAX_NEIGHBOURS + 1:
            others = [other for other in listed if not same(other, value)]
            return tuple(
                sorted(others, key=lambda other: (abs(_number(other) - _number(value)), _number(other)))
            )
        found: list[Value] = []
        if self._steps is not None and not self.log:
            here = self._index(_number(value))
            offsets = [sign << bit for bit in range(self._steps.bit_length()) for sign in (1, -1)]
            found = [self._at(here + offset) for offset in offsets if 0 <= here + offset <= self._steps]
        else:
            (here_scaled,) = self.encode(value)
            for bit in range(8, 0, -1):
                for sign in (1.0, -1.0):
                    there = here_scaled + sign / (1 << bit)
                    if 0.0 <= there <= 1.0:
                        found.append(self._place(there))
        unique: list[Value] = []
        for other in found:
            if not same(other, value) and not any(same(other, earlier) for earlier in unique):
                unique.append(other)
        return tuple(unique)

    def values(self) -> tuple[Value, ...] | None:
        """The numbers in order, or None when there are more than `MAX_LISTED` or a continuum."""
        if self._steps is None or self._steps >= MAX_LISTED:
            return None
        return tuple(self._at(index) for index in range(self._steps + 1))

    @property
    def count(self) -> int | None:
        """How many numbers there are; None for a continuum."""
        return None if self._steps is None else self._steps + 1

    def weights(self) -> tuple[float, ...] | None:
        """On a log scale, the share of it that is rounded to each number, one on average."""
        listed = self.values()
        if not self.log or listed is None or len(listed) < 2:
            return None
        assert self.step is not None
        edges = [_number(value) + self.step / 2 for value in listed[:-1]]
        cuts = [math.log(edge) for edge in (self.low, *edges, self.high)]
        return tuple(
            (right - left) * len(listed) / (cuts[-1] - cuts[0]) for left, right in itertools.pairwise(cuts)
        )

    def encode(self, value: Value) -> tuple[float, ...]:
        """The place between `low` and `high` on the range's scale."""
        if self.high == self.low:
            return (0.0,)
        if self.log:
            return (math.log(_number(value) / self.low) / math.log(self.high / self.low),)
        return ((_number(value) - self.low) / (self.high - self.low),)

    def nearest(self, value: object) -> Value | None:
        """The closest number on the grid."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        inside = min(max(value, self.low), self.high)
        return float(inside) if self._steps is None else self._at(self._index(inside))

    def _index(self, value: float) -> int:
        assert self.step is not None
        assert self._steps is not None
        return min(max(round((value - self.low) / self.step), 0), self._steps)

    def _at(self, index: int) -> Value:
        assert self.step is not None
        if self.integer:
            return int(self.low) + index * int(self.step)
        return float(min(self.low + index * self.step, self.high))

    def _place(self, place: float) -> Value:
        if self.log:
            number = self.low * (self.high / self.low) ** place
        else:
            number = self.low + place * (self.high - self.low)
        number = min(max(number, self.low), self.high)
        return float(number) if self._steps is None else self._at(self._index(number))
