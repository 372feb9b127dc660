"""ConfigSpace, written: as its serialised dict, and as its object where the package is installed."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from kernelwright.errors import MissingExtraError
from kernelwright.errors import NotRepresentableError
from kernelwright.space._constraints import Constraint
from kernelwright.space._expressions import Expression
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Conditional
from kernelwright.space._space import Space

#: The most cells of a constraint that are asked, and the most clauses that one is written as.
_CELLS = 1 << 18
_CLAUSES = 4096
_CONDITIONS = {ast.Eq: "EQ", ast.NotEq: "NEQ", ast.Lt: "LT", ast.Gt: "GT"}


def to_configspace(space: Space) -> Any:
    """The space as a `ConfigSpace.ConfigurationSpace`.

    Raises MissingExtraError without the package, NotRepresentableError naming what it cannot hold.
    """
    try:
        import ConfigSpace
    except ImportError as error:
        raise MissingExtraError("ConfigSpace", "configspace", "to make a ConfigurationSpace") from error
    return ConfigSpace.ConfigurationSpace.from_serialized_dict(configspace_document(space))


def configspace_document(space: Space) -> dict[str, Any]:
    """The space as the dict that ConfigSpace serialises to (format 0.4).

    Numbers in steps become ordinals; constraints of any form become forbidden clauses, one for each
    combination of all their parameters but the last. Raises NotRepresentableError naming what does not fit:
    permutations, subsets, knock-outs, constraints on a continuum or on too many values.
    """
    hyperparameters = []
    conditions = []
    for name, parameter in space.parameters.items():
        inner = parameter.inner if isinstance(parameter, Conditional) else parameter
        here = space.default[name]
        hyperparameters.append(_hyperparameter(name, inner, inner.default if here is None else here))
        if isinstance(parameter, Conditional):
            parts = [_condition(name, one, space) for one in parameter.conditions]
            conditions.append(parts[0] if len(parts) == 1 else _joined("AND", name, parts))
    return {
        "name": None,
        "hyperparameters": hyperparameters,
        "conditions": conditions,
        "forbiddens": [clause for one in space.constraints for clause in _forbidden(one, space)],
        "python_module_version": "1.2.0",
        "format_version": 0.4,
    }


def _hyperparameter(name: str, parameter: Parameter, default: Value) -> dict[str, Any]:
    body: dict[str, Any] = {"name": name, "default_value": default, "meta": None}
    if isinstance(parameter, Range):
        number = "uniform_int" if parameter.integer else "uniform_float"
        if (parameter.integer and parameter.step == 1) or parameter.step is None:
            if parameter.low == parameter.high:
                return {"type": "constant", "name": name, "value": default, "meta": None}
            bounds = {"lower": parameter.low, "upper": parameter.high, "log": parameter.log}
            return {"type": number, **body, **bounds}
        values = parameter.values()
        if values is not None:
            return {"type": "ordinal", **body, "sequence": list(values)}
    if isinstance(parameter, Choice):
        values = parameter.values() or ()
        if len(values) == 1:
            return {"type": "constant", "name": name, "value": values[0], "meta": None}
        if parameter.ordered:
            return {"type": "ordinal", **body, "sequence": sorted(values, key=_number)}
        return {"type": "categorical", **body, "choices": list(values), "weights": None}
    raise NotRepresentableError(f"ConfigSpace cannot hold parameter {name!r}: {parameter}")


def _number(value: Value) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _joined(kind: str, child: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": kind, "child": child, "conditions": list(parts)}


def _condition(child: str, condition: Constraint, space: Space) -> dict[str, Any]:
    scope = condition.scope or ()
    if condition.expression is None:
        return _tabulated(child, condition, scope, space)
    return _from_body(child, condition, condition.expression.body, space)


def _from_body(child: str, condition: Constraint, body: ast.expr, space: Space) -> dict[str, Any]:
    """A condition from its expression: parts about one parent each, joined by and / or."""
    expression = condition.expression
    assert expression is not None
    assert condition.scope is not None
    if isinstance(body, ast.BoolOp):
        kind = "AND" if isinstance(body.op, ast.And) else "OR"
        return _joined(kind, child, [_from_body(child, condition, one, space) for one in body.values])
    slots = {node.id for node in ast.walk(body) if isinstance(node, ast.Name) and node.id.startswith("_p")}
    scope = tuple(name for at, name in enumerate(condition.scope) if f"_p{at}" in slots)
    if isinstance(body, ast.Compare) and len(body.ops) == 1 and len(scope) == 1:
        left, right = body.left, body.comparators[0]
        kind = _CONDITIONS.get(type(body.ops[0]), "")
        if kind and isinstance(left, ast.Name) and isinstance(right, ast.Constant):
            return {"type": kind, "child": child, "parent": scope[0], "value": right.value}
    whole = Expression(expression.text, expression.names, body).function()
    places = [at for at in range(len(condition.scope)) if f"_p{at}" in slots]

    def part(*values: Value) -> bool:
        filled: list[Value] = [None] * len(expression.names)
        for at, value in zip(places, values, strict=True):
            filled[at] = value
        return bool(whole(*filled))

    return _tabulated(child, _Positional(part, condition.name, scope), scope, space)


class _Positional(Constraint):
    """A function of values by position."""

    def __init__(self, function: Any, name: str, scope: tuple[str, ...]) -> None:
        self.name, self.scope, self._function = name, scope, function
        self.condition, self.expression, self.known_as = function, None, None


def _tabulated(child: str, condition: Constraint, scope: Sequence[str], space: Space) -> dict[str, Any]:
    values = _listed(scope[0], space) if len(scope) == 1 else None
    if values is None:
        raise NotRepresentableError(
            f"ConfigSpace cannot hold the condition {condition.name!r} of {child!r}: it compares a parameter "
            "with a value, or joins such comparisons by and / or"
        )
    met = [value for value in values if condition.holds({scope[0]: value})]
    if not met:
        raise NotRepresentableError(
            f"ConfigSpace cannot hold the condition {condition.name!r} of {child!r}: it never holds"
        )
    return {"type": "IN", "child": child, "parent": scope[0], "values": met}


def _listed(name: str, space: Space) -> tuple[Value, ...] | None:
    parameter = space.parameters[name]
    return (parameter.inner if isinstance(parameter, Conditional) else parameter).values()


def _forbidden(constraint: Constraint, space: Space) -> list[dict[str, Any]]:
    """Clauses for what a constraint excludes: equalities, and a set of values of its last parameter."""
    scope = tuple(space.parameters) if constraint.scope is None else constraint.scope
    bound = constraint.moved_to("", scope) if constraint.scope is None else constraint
    domains = []
    for name in scope:
        values = _listed(name, space)
        if values is None:
            raise NotRepresentableError(
                f"ConfigSpace cannot hold the constraint {constraint.name!r}: {name!r} has too many values"
            )
        domains.append(values)
    if math.prod(map(len, domains)) > _CELLS:
        raise NotRepresentableError(
            f"ConfigSpace cannot hold the constraint {constraint.name!r}: it looks at too many combinations"
        )
    cells = iter(bound.table(domains))
    clauses = []
    for values in itertools.product(*domains[:-1]):
        excluded = [value for value in domains[-1] if not next(cells)]
        if not excluded:
            continue
        parts: list[dict[str, Any]] = [
            {"type": "EQUALS", "name": name, "value": value}
            for name, value in zip(scope, values, strict=False)
        ]
        if len(excluded) == 1:
            parts.append({"type": "EQUALS", "name": scope[-1], "value": excluded[0]})
        else:
            parts.append({"type": "IN", "name": scope[-1], "values": excluded})
        clauses.append(parts[0] if len(parts) == 1 else {"type": "AND", "clauses": parts})
        if len(clauses) > _CLAUSES:
            raise NotRepresentableError(
                f"ConfigSpace cannot hold the constraint {constraint.name!r}: it excludes more than "
                f"{_CLAUSES} combinations"
            )
    return clauses
