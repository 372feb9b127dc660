"""Which constraints exclude each other, when nothing is left of a space."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain
from kernelwright.space._groups import Group
from kernelwright.space._groups import tie


def contradiction(group: Group) -> str:
    """A minimal set of constraints that leaves nothing: each of them is needed for that.

    Found by leaving one out at a time (Chinneck and Dravnieks, 1991). Conditions of parameters stay: they
    only say which values can be together.
    """
    kept = list(group.rules)
    fixed = set(group.activities)
    for rule in group.rules:
        fewer = [one for one in kept if one is not rule]
        if rule not in fixed and not _is_possible(group.domains, fewer):
            kept.remove(rule)
    names = " and ".join(repr(rule.name) for rule in kept if rule not in fixed)
    if len(kept) - len(fixed) == 1:
        return f"the space is empty: no configuration meets the constraint {names}"
    return f"the space is empty: the constraints {names} exclude each other"


def _is_possible(domains: Sequence[Domain], rules: Sequence[Constraint]) -> bool:
    return all(group.count() != 0 for group in tie(domains, rules))
