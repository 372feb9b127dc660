"""Tables: constraints tabulated over listed values, and variable elimination on them.

Elimination as in Dechter, "Bucket elimination: a unifying framework for reasoning" (1999): sums over products
of tables, one variable at a time, cost no more than the largest table on the way, however many points the
space has. Counting is the sum of ones; a draw walks the sums back.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain

#: The most cells of one table.
MAX_CELLS = 1 << 20
#: The most cells of all tables of a group together.
MAX_TOTAL = 1 << 22


class Tables:
    """The rules of one group as arrays of bool, by the positions of their parameters in the group."""

    def __init__(self, domains: Sequence[Domain], rules: Sequence[Constraint]) -> None:
        position = {domain.name: at for at, domain in enumerate(domains)}
        self.sizes = tuple(len(domain) for domain in domains)
        self.scopes: list[tuple[int, ...]] = []
        self.arrays: list[Any] = []
        alive = [np.arange(size) for size in self.sizes]
        # Rules on one parameter come first, and the others are asked only about what those leave: a rule that
        # keeps zero out may guard one that divides.
        for rule in sorted(rules, key=lambda one: len(one.scope or ()) > 1):
            scope = tuple(position[name] for name in rule.scope or position)
            values = [domains[at].values or () for at in scope]
            kept = [[value[place] for place in alive[at]] for at, value in zip(scope, values, strict=True)]
            array = np.zeros([self.sizes[at] for at in scope], dtype=bool)
            cells = np.array(rule.table(kept), dtype=bool).reshape([len(one) for one in kept])
            array[np.ix_(*(alive[at] for at in scope))] = cells
            if len(scope) == 1:
                alive[scope[0]] = np.flatnonzero(array)
            self.scopes.append(scope)
            self.arrays.append(array)


def narrow(domains: Sequence[Domain], rules: Sequence[Constraint]) -> list[Constraint]:
    """The rules that can be tabulated and eliminated within the limits: all, or all but the widest."""
    sizes = [len(domain) for domain in domains]
    position = {domain.name: at for at, domain in enumerate(domains)}
    scopes = {id(rule): [position[name] for name in rule.scope or position] for rule in rules}
    cells = {id(rule): math.prod(sizes[at] for at in scopes[id(rule)]) for rule in rules}
    # No cells: a parameter that cannot be listed.
    left = [rule for rule in rules if 0 < cells[id(rule)] <= MAX_CELLS]
    left.sort(key=lambda rule: cells[id(rule)])
    while left:
        tabulated = sum(cells[id(rule)] for rule in left)
        if tabulated <= MAX_TOTAL and plan(sizes, [scopes[id(rule)] for rule in left]) is not None:
            break
        left.pop()
    kept = set(map(id, left))
    return [rule for rule in rules if id(rule) in kept]


def plan(sizes: Sequence[int], scopes: Sequence[Sequence[int]]) -> list[int] | None:
    """An order of elimination, the smallest table next; None where a table is too big."""
    cliques = [frozenset(scope) for scope in scopes]
    left = set().union(*cliques)
    order: list[int] = []
    total = 0
    while left:
        joined = {at: frozenset({at}).union(*(one for one in cliques if at in one)) for at in left}
        cells = {at: math.prod(sizes[other] for other in joined[at]) for at in left}
        best = min(left, key=lambda at: (cells[at], at))
        total += cells[best]
        if cells[best] > MAX_CELLS or total > MAX_TOTAL:
            return None
        cliques = [one for one in cliques if best not in one]
        cliques.append(joined[best] - {best})
        left.remove(best)
        order.append(best)
    return order


class Elimination:
    """Exact counts, draws and listings of what a group's tables allow."""

    def __init__(self, tables: Tables, weights: Sequence[Sequence[float] | None]) -> None:
        self._tables = tables
        order = plan(tables.sizes, tables.scopes)
        assert order is not None, "the tables are too wide; `narrow` says which fit"
        self._order = tuple(order)
        self._weights = weights
        self._steps: list[tuple[int, tuple[int, ...], Any]] | None = None

    def count(self) -> int:
        """How many places are allowed, exactly."""
        exact = np.int64 if math.prod(self._tables.sizes) < 2**62 else object
        factors = [
            (scope, array.astype(exact))
            for scope, array in zip(self._tables.scopes, self._tables.arrays, strict=True)
        ]
        total = 1
        for at in self._order:
            scope, table = self._joined(at, factors, exact)
            factors = [factor for factor in factors if at not in factor[0]]
            summed = table.sum(axis=-1)
            if len(scope) == 1:
                total *= int(summed)
            else:
                factors.append((scope[:-1], summed))
        return total

    def draw(self, rng: random.Random) -> tuple[int, ...]:
        """One allowed row of places, with a probability in proportion to the product of its weights."""
        if self._steps is None:
            self._steps = self.steps(self._weights)
        return self.walk(self._steps, rng)

    def walk(self, steps: Sequence[tuple[int, tuple[int, ...], Any]], rng: random.Random) -> tuple[int, ...]:
        """A draw along `steps`."""
        row = [0] * len(self._order)
        for at, given, sums in steps:
            line = sums[tuple([row[other] for other in given])] if given else sums
            row[at] = int(line.searchsorted(rng.random() * line[-1], side="right"))
        return tuple(row)

    def steps(self, weights: Sequence[Sequence[float] | None]) -> list[tuple[int, tuple[int, ...], Any]]:
        """For each variable, last eliminated first: which it depends on, and running sums over its values."""
        factors = self._weighted(weights)
        steps = []
        for at in self._order:
            scope, table = self._joined(at, factors, np.float64)
            factors = [factor for factor in factors if at not in factor[0]]
            steps.append((at, scope[:-1], np.cumsum(table, axis=-1)))
            if len(scope) > 1:
                summed = table.sum(axis=-1)
                top = summed.max()
                factors.append((scope[:-1], summed / top if top > 0 else summed))
        return steps[::-1]

    def best(self, weights: Sequence[Sequence[float]]) -> tuple[int, ...]:
        """The allowed row whose product of weights is the largest; the first of equals."""
        factors = self._weighted(weights)
        steps = []
        for at in self._order:
            scope, table = self._joined(at, factors, np.float64)
            factors = [factor for factor in factors if at not in factor[0]]
            steps.append((at, scope[:-1], table.argmax(axis=-1)))
            if len(scope) > 1:
                most = table.max(axis=-1)
                factors.append((scope[:-1], most / max(most.max(), 1.0)))
        row = [0] * len(self._order)
        for at, given, choices in reversed(steps):
            row[at] = int(choices[tuple([row[other] for other in given])])
        return tuple(row)

    def rows(self) -> Any:
        """All allowed rows of places, an array in lexicographic order."""
        rows = np.zeros((1, len(self._order)), dtype=np.intp)
        for at, given, sums in self.steps([None] * len(self._order)):
            lines = sums[tuple(rows[:, other] for other in given)] if given else sums[None, :]
            allowed = np.diff(lines, axis=-1, prepend=0.0) > 0
            parents, places = np.nonzero(np.broadcast_to(allowed, (len(rows), self._tables.sizes[at])))
            rows = rows[parents]
            rows[:, at] = places
        return rows[np.lexsort(rows.T[::-1])]

    def _weighted(self, weights: Sequence[Sequence[float] | None]) -> list[tuple[tuple[int, ...], Any]]:
        tables = zip(self._tables.scopes, self._tables.arrays, strict=True)
        factors: list[tuple[tuple[int, ...], Any]] = [(scope, array.astype(float)) for scope, array in tables]
        for at, weight in enumerate(weights):
            if weight is not None:
                factors.append(((at,), np.array(weight, dtype=float)))
        return factors

    def _joined(
        self, at: int, factors: Sequence[tuple[tuple[int, ...], Any]], dtype: Any
    ) -> tuple[tuple[int, ...], Any]:
        """The product of all factors that look at `at`, as a table with `at` for its last axis."""
        near = [factor for factor in factors if at in factor[0]]
        scope = (*sorted({other for one, _ in near for other in one} - {at}), at)
        product = np.ones((1,) * (len(scope) - 1) + (self._tables.sizes[at],), dtype=dtype)
        # The smallest first: the product is as large as the table to the last factors only.
        for one, array in sorted(near, key=lambda factor: factor[1].size):
            order = sorted(range(len(one)), key=lambda axis: scope.index(one[axis]))
            shape = [self._tables.sizes[other] if other in one else 1 for other in scope]
            product = product * array.transpose(order).reshape(shape)
        return scope, product
