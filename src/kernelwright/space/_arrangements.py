"""Arrangements: parameters whose values are tuples of given items."""

from __future__ import annotations

import itertools
import math
import random
from abc import abstractmethod
from collections.abc import Iterator
from collections.abc import Sequence
from typing import cast

from kernelwright.errors import SpaceError
from kernelwright.space._parameters import MAX_LISTED
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import same
from kernelwright.space._parameters import Scalar
from kernelwright.space._parameters import Value


class Arrangement(Parameter):
    """A tuple of distinct items; a list is taken as one, as JSON has no tuples."""

    default: tuple[Scalar, ...]

    def __init__(self, kind: str, items: Sequence[Scalar]) -> None:
        if isinstance(items, str):
            raise SpaceError(f"{kind}: give a list of items, not the string {items!r}")
        self.items = tuple(items)
        if not self.items:
            raise SpaceError(f"{kind}: an empty list leaves nothing to arrange; give at least one item")
        self._place: dict[tuple[type, object], int] = {}
        for index, item in enumerate(self.items):
            if not isinstance(item, int | float | str | bool):
                raise SpaceError(f"{kind}: {item!r} is not a number, a string or a bool")
            if self._place.setdefault((type(item), item), index) != index:
                raise SpaceError(f"{kind}: {item!r} is listed twice")
            if item in self.items[:index]:
                # Tuples of them would be equal.
                raise SpaceError(f"{kind}: {item!r} and {self.items[self.items.index(item)]!r} are too alike")

    def contains(self, value: object) -> bool:
        """Whether `value` is a tuple or a list that arranges the items."""
        places = self._places(value)
        return places is not None and self._allows(places)

    def values(self) -> tuple[Value, ...] | None:
        """All arrangements in a fixed order, or None when there are more than `MAX_LISTED`."""
        if self.count is None or self.count > MAX_LISTED:
            return None
        return tuple(self._items(places) for places in self._all())

    def normalise(self, value: Value) -> Value:
        """A list, as JSON gives it back, as the tuple that it was."""
        return tuple(value) if isinstance(value, list) else value

    def _places(self, value: object) -> tuple[int, ...] | None:
        if not isinstance(value, tuple | list):
            return None
        places = [-1 if item.__hash__ is None else self._place.get((type(item), item), -1) for item in value]
        return None if -1 in places or len(set(places)) < len(places) else tuple(places)

    def _of(self, value: Value) -> tuple[int, ...]:
        return tuple(self._place[type(item), item] for item in cast("tuple[Scalar, ...]", value))

    def _items(self, places: Sequence[int]) -> tuple[Scalar, ...]:
        return tuple(self.items[place] for place in places)

    def _begin(self, kind: str, default: Sequence[Scalar] | None, first: tuple[Scalar, ...]) -> None:
        self.stated = default is not None
        if default is not None and not self.contains(default):
            raise SpaceError(f"{kind}: the default {default!r} is not one of its values")
        self.default = first if default is None else tuple(default)

    @abstractmethod
    def _allows(self, places: tuple[int, ...]) -> bool: ...

    @abstractmethod
    def _all(self) -> Iterator[tuple[int, ...]]: ...


class Permutation(Arrangement):
    """All items, in some order."""

    def __init__(self, items: Sequence[Scalar], *, default: Sequence[Scalar] | None = None) -> None:
        super().__init__("permutation", items)
        self._begin("permutation", default, self.items)

    def __repr__(self) -> str:
        return f"Permutation({list(self.items)}, default={self.default!r})"

    def sample(self, rng: random.Random) -> Value:
        """Any order, all equally likely."""
        return tuple(rng.sample(self.items, len(self.items)))

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """Two items exchanged: first those side by side, then ever farther apart."""
        order = cast("tuple[Scalar, ...]", tuple(cast("Sequence[Scalar]", value)))
        found: list[Value] = []
        for gap in range(1, len(order)):
            for left in range(len(order) - gap):
                changed = list(order)
                changed[left], changed[left + gap] = changed[left + gap], changed[left]
                found.append(tuple(changed))
        return tuple(found)

    @property
    def count(self) -> int:
        """How many orders there are."""
        return math.factorial(len(self.items))

    def encode(self, value: Value) -> tuple[float, ...]:
        """The place of each item; the L1 distance is Spearman's footrule over its maximum."""
        size = len(self.items)
        if size == 1:
            return (0.0,)
        at = {place: index for index, place in enumerate(self._of(value))}
        return tuple(at[place] / (size * size // 2) for place in range(size))

    def nearest(self, value: object) -> Value | None:
        """The known items in the order given, then the missing ones."""
        if not isinstance(value, tuple | list):
            return None
        known = [item for item in self.items if any(same(item, other) for other in value)]
        known.sort(key=lambda item: next(i for i, other in enumerate(value) if same(item, other)))
        return (*known, *(item for item in self.items if not any(same(item, other) for other in known)))

    def _allows(self, places: tuple[int, ...]) -> bool:
        return len(places) == len(self.items)

    def _all(self) -> Iterator[tuple[int, ...]]:
        return itertools.permutations(range(len(self.items)))


class Subset(Arrangement):
    """Some of the items, in the order in which they are listed."""

    def __init__(
        self,
        items: Sequence[Scalar],
        *,
        min_size: int = 0,
        max_size: int | None = None,
        default: Sequence[Scalar] | None = None,
    ) -> None:
        super().__init__("subset", items)
        self.min_size = min_size
        self.max_size = len(self.items) if max_size is None else max_size
        if not 0 <= self.min_size <= self.max_size <= len(self.items):
            raise SpaceError(
                f"subset: sizes from {min_size} to {self.max_size} of {len(self.items)} items leave nothing "
                "to choose"
            )
        self._sizes = range(self.min_size, self.max_size + 1)
        self._begin("subset", default, self.items[: self.min_size])
        # In the order of the items, whatever the order of the default.
        self.default = self._items(sorted(self._of(self.default)))

    def __repr__(self) -> str:
        return (
            f"Subset({list(self.items)}, min_size={self.min_size}, max_size={self.max_size}, "
            f"default={self.default!r})"
        )

    def sample(self, rng: random.Random) -> Value:
        """Any subset of an allowed size, all equally likely."""
        size = rng.choices(self._sizes, [math.comb(len(self.items), size) for size in self._sizes])[0]
        return self._items(sorted(rng.sample(range(len(self.items)), size)))

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """One item more or less; where neither is allowed, one item exchanged for another."""
        inside = set(self._of(value))
        found = [inside ^ {place} for place in range(len(self.items))]
        found = [places for places in found if len(places) in self._sizes]
        if not found:
            outside = [place for place in range(len(self.items)) if place not in inside]
            found = [inside - {old} | {new} for old in sorted(inside) for new in outside]
        return tuple(self._items(sorted(places)) for places in found)

    @property
    def count(self) -> int:
        """How many subsets of an allowed size there are."""
        return sum(math.comb(len(self.items), size) for size in self._sizes)

    def encode(self, value: Value) -> tuple[float, ...]:
        """For each item whether it is there; the distance is the share of items that differ."""
        inside = set(self._of(value))
        return tuple((place in inside) / len(self.items) for place in range(len(self.items)))

    def nearest(self, value: object) -> Value | None:
        """The known items, filled up or cut to an allowed size."""
        if not isinstance(value, tuple | list):
            return None
        known = [p for p, item in enumerate(self.items) if any(same(item, other) for other in value)]
        missing = [place for place in range(len(self.items)) if place not in known]
        known += missing[: max(self.min_size - len(known), 0)]
        return self._items(sorted(known[: self.max_size]))

    def _allows(self, places: tuple[int, ...]) -> bool:
        return len(places) in self._sizes and list(places) == sorted(places)

    def _all(self) -> Iterator[tuple[int, ...]]:
        for size in self._sizes:
            yield from itertools.combinations(range(len(self.items)), size)
