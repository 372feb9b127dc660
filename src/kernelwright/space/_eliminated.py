"""Eliminated groups: too many configurations to list, but tables that count and draw exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain
from kernelwright.space._groups import drawn_changes
from kernelwright.space._groups import Group
from kernelwright.space._parameters import Value
from kernelwright.space._tables import Elimination
from kernelwright.space._tables import Tables


class Eliminated(Group):
    """A group by the tables of its rules."""

    def __init__(
        self,
        domains: Sequence[Domain],
        rules: Sequence[Constraint],
        tables: Tables,
        elimination: Elimination,
        count: int,
    ) -> None:
        super().__init__(domains, rules)
        self._elimination = elimination
        self._count = count
        self._values = [domain.values or () for domain in domains]
        self._rules = list(zip(tables.scopes, tables.arrays, strict=True))
        # For each position the tables that look at it, that position first, so that a line is a plain index.
        self._lines = [
            [
                (tuple(other for other in scope if other != at), np.moveaxis(array, scope.index(at), -1))
                for scope, array in self._rules
                if at in scope
            ]
            for at in range(len(domains))
        ]

    def draw(self, rng: random.Random) -> Configuration:
        """Exactly in proportion to the weights: equally, unless a parameter has a scale."""
        return self._configuration(self._elimination.draw(rng))

    def count(self) -> int:
        """The exact number."""
        return self._count

    def allows(self, configuration: Mapping[str, Value]) -> bool:
        """Whether all tables allow it."""
        row = self._row(configuration)
        return -1 not in row and all(array[tuple([row[at] for at in scope])] for scope, array in self._rules)

    def near(self, configuration: Mapping[str, Value], rng: random.Random) -> Sequence[Configuration]:
        """Changes of one parameter; a few draws where none is allowed."""
        row = self._row(configuration)
        found: list[Configuration] = []
        for at, domain in enumerate(self.domains):
            if domain.name in self.parents:
                found += self.changed(configuration, domain.name)
                continue
            places = domain.near(row[at])
            if not places:
                continue
            allowed = None
            for others, lines in self._lines[at]:
                line = lines[tuple([row[other] for other in others])]
                allowed = line if allowed is None else allowed & line
            values = self._values[at]
            if allowed is None:
                found += [{domain.name: values[place]} for place in places]
            else:
                flags = allowed.tolist()
                found += [{domain.name: values[place]} for place in places if flags[place]]
        return found or drawn_changes(self, configuration, rng)

    def listed(self) -> None:
        """Too many."""
        return

    def stand_in(self, default: Configuration) -> Configuration | None:
        """The row that keeps most of the default, by elimination with maxima for sums."""
        if not self._count:
            return None
        favours = [
            [_favour(domain) if place == wanted else 1.0 for place in range(len(domain))]
            for wanted, domain in zip(self._row(default), self.domains, strict=True)
        ]
        return self._configuration(self._elimination.best(favours))

    def _row(self, configuration: Mapping[str, Value]) -> list[int]:
        return [domain.place(configuration[domain.name]) for domain in self.domains]

    def _configuration(self, row: Sequence[int]) -> Configuration:
        return {
            name: values[place] for name, values, place in zip(self.names, self._values, row, strict=True)
        }


def _favour(domain: Domain) -> float:
    return 1e3 if domain.parameter.stated else 2.0
