"""Listed groups: all that is allowed is known, so that every question is a lookup."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain
from kernelwright.space._groups import Group
from kernelwright.space._groups import STAND_INS
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Conditional


class Listed(Group):
    """A group by its allowed rows of places."""

    def __init__(
        self, domains: Sequence[Domain], rules: Sequence[Constraint], rows: list[tuple[int, ...]]
    ) -> None:
        super().__init__(domains, rules)
        self.rows = rows
        self._known = set(rows)
        self._near: dict[tuple[int, ...], list[Configuration]] = {}
        self._values = [domain.values or () for domain in domains]
        self._sums = self._running_weights()
        self._array: Any = None
        self._movable: tuple[int, ...] | None = None

    def draw(self, rng: random.Random) -> Configuration:
        """Any of the rows, as likely as its weights make it: equally, unless a parameter has a scale."""
        if self._sums is None:
            return self._configuration(self.rows[int(rng.random() * len(self.rows))])
        return self._configuration(rng.choices(self.rows, cum_weights=self._sums)[0])

    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def allows(self, configuration: Mapping[str, Value]) -> bool:
        """Whether its row is known."""
        return self._row(configuration) in self._known

    def near(self, configuration: Mapping[str, Value], rng: random.Random) -> Sequence[Configuration]:
        """Changes of one parameter. One that cannot change alone changes with as few others as possible."""
        row = self._row(configuration)
        found = self._near.get(row)
        if found is None:
            found = self._near[row] = self._changes(row)
        return found

    def listed(self) -> Iterator[Configuration]:
        """All rows, in lexicographic order."""
        return map(self._configuration, self.rows)

    def stand_in(self, default: Configuration) -> Configuration | None:
        """The row that keeps most of the default; the first of equals."""
        wanted = self._row(default)
        merits = [len(self.domains) if domain.parameter.stated else 1 for domain in self.domains]

        def kept(row: tuple[int, ...]) -> int:
            return sum(m for here, there, m in zip(row, wanted, merits, strict=True) if here == there)

        return self._configuration(max(self.rows, key=kept)) if self.rows else None

    def _row(self, configuration: Mapping[str, Value]) -> tuple[int, ...]:
        return tuple([domain.place(configuration[domain.name]) for domain in self.domains])

    def _configuration(self, row: tuple[int, ...]) -> Configuration:
        return {
            name: values[place] for name, values, place in zip(self.names, self._values, row, strict=True)
        }

    def _running_weights(self) -> list[float] | None:
        weights = [domain.weights for domain in self.domains]
        if all(weight is None for weight in weights):
            return None
        products = [1.0] * len(self.rows)
        for at, weight in enumerate(weights):
            if weight is not None:
                products = [p * weight[row[at]] for p, row in zip(products, self.rows, strict=True)]
        return list(itertools.accumulate(products))

    def _changes(self, row: tuple[int, ...]) -> list[Configuration]:
        found: list[Configuration] = []
        configuration: Configuration | None = None
        differs: Any = None
        for at, domain in enumerate(self.domains):
            before = len(found)
            if domain.name in self.parents:
                configuration = configuration or self._configuration(row)
                found += self.changed(configuration, domain.name)
            else:
                head, tail = row[:at], row[at + 1 :]
                values = self._values[at]
                found += [
                    {domain.name: values[place]}
                    for place in domain.near(row[at])
                    if (*head, place, *tail) in self._known
                ]
            if len(found) == before and at in self._can_move() and not self._asleep(at, row[at]):
                if differs is None:
                    differs = self._differences(row)
                found += [change for change in self._together(differs, at) if change not in found]
        return found

    def _asleep(self, at: int, place: int) -> bool:
        """Whether the value there is that of a parameter that is not active: it is not its own to change."""
        parameter = self.domains[at].parameter
        return (
            self._values[at][place] is None
            and isinstance(parameter, Conditional)
            and not parameter.inner.contains(None)
        )

    def _differences(self, row: tuple[int, ...]) -> Any:
        import numpy as np

        if self._array is None:
            self._array = np.array(self.rows, dtype=np.int32)
        return self._array != np.array(row, dtype=np.int32)

    def _together(self, differs: Any, at: int) -> list[Configuration]:
        """The rows that differ at `at` and in the fewest other parameters."""
        import numpy as np

        others = np.flatnonzero(differs[:, at])
        sizes = differs[others].sum(axis=1)
        closest = others[np.argsort(sizes, kind="stable")[:STAND_INS]]
        return [
            {
                self.names[place]: self._values[place][self.rows[other][place]]
                for place in np.flatnonzero(differs[other]).tolist()
            }
            for other in closest.tolist()
        ]

    def _can_move(self) -> tuple[int, ...]:
        if self._movable is None:
            columns = zip(*self.rows, strict=True)
            self._movable = tuple(at for at, column in enumerate(columns) if len(set(column)) > 1)
        return self._movable
