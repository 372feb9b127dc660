"""The constraint solver underneath: python-constraint2, asked about places instead of values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from collections.abc import Sequence

from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain

#: A rule is tabulated before solving when that takes no more cells than this.
_TABULATED = 1 << 14


def solutions(domains: Sequence[Domain], rules: Sequence[Constraint]) -> list[tuple[int, ...]]:
    """All rows of places that meet the rules, in lexicographic order.

    The solver compares values with `==`, for which True is 1: it gets their places instead.
    """
    from constraint import FunctionConstraint
    from constraint import Problem

    problem = Problem()
    by_name = {domain.name: domain for domain in domains}
    alive = {domain.name: list(range(len(domain))) for domain in domains}
    # Rules on one parameter first: others are not asked about what these leave out: one may guard another.
    wide = []
    for rule in rules:
        scope = rule.scope or tuple(by_name)
        if len(scope) > 1:
            wide.append((rule, scope))
            continue
        values = by_name[scope[0]].values or ()
        alive[scope[0]] = [place for place in alive[scope[0]] if rule.holds({scope[0]: values[place]})]
    if not all(alive.values()):
        return []
    for name, places in alive.items():
        problem.addVariable(name, places)
    for rule, scope in wide:
        values_of = [by_name[name].values or () for name in scope]
        problem.addConstraint(
            FunctionConstraint(_on_places(rule, scope, values_of, [alive[name] for name in scope])),
            list(scope),
        )
    names = list(by_name)
    return sorted(tuple(solution[name] for name in names) for solution in problem.getSolutions())


def _on_places(
    rule: Constraint,
    scope: tuple[str, ...],
    values: Sequence[Sequence[object]],
    alive: Sequence[Sequence[int]],
) -> Callable[..., bool]:
    if math.prod(map(len, alive)) <= _TABULATED:
        kept = [[value[place] for place in places] for value, places in zip(values, alive, strict=True)]
        try:
            cells = rule.table(kept)  # type: ignore[arg-type]
        except SpaceError:
            pass  # on a combination that another rule may exclude: then it is never asked
        else:
            allowed = set(itertools.compress(itertools.product(*alive), cells))
            return lambda *places: places in allowed

    def test(*places: int) -> bool:
        row = {name: value[place] for name, value, place in zip(scope, values, places, strict=True)}
        return rule.holds(row)  # type: ignore[arg-type]

    return test
