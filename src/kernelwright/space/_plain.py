"""Spaces as plain JSON, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Mapping
from types import CodeType
from typing import Any

from kernelwright.errors import NotRepresentableError
from kernelwright.errors import SpaceError
from kernelwright.files import as_plain
from kernelwright.space._arrangements import Permutation
from kernelwright.space._arrangements import Subset
from kernelwright.space._constraints import Constraint
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Flag
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._presence import Conditional
from kernelwright.space._presence import Knockout
from kernelwright.space._space import Space


def describe_space(space: Space) -> dict[str, Any]:
    """A space as plain JSON; callables by name and code, so that it cannot always be read back."""
    return _space(space, describe_constraint)


def space_to_plain(space: Space) -> dict[str, Any]:
    """A space as plain JSON. Raises NotRepresentableError naming a constraint that is a callable."""
    return _space(space, constraint_to_plain)


def space_from_plain(plain: Mapping[str, Any]) -> Space:
    """The space that `space_to_plain` wrote. Raises SpaceError saying what is wrong."""
    try:
        parameters = {name: parameter_from_plain(body) for name, body in plain["parameters"].items()}
        constraints = [constraint_from_plain(body) for body in plain["constraints"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, SpaceError):
            raise
        raise SpaceError(f"the space cannot be read: {type(error).__name__}: {error}") from error
    return Space(parameters, constraints)


def constraint_from_plain(plain: Mapping[str, Any]) -> Constraint:
    """The constraint that was written as an expression."""
    made = Constraint(plain["expression"], plain.get("name"))
    return made.with_scope(tuple(plain["parameters"]))


def parameter_from_plain(plain: Mapping[str, Any]) -> Parameter:
    """The parameter that was written. Raises SpaceError for a kind that is not known."""
    kind = plain["kind"]
    if kind == "conditional":
        conditions = [constraint_from_plain(one) for one in plain["when"]]
        return Conditional(conditions, parameter_from_plain(plain["parameter"]))
    if kind == "knockout":
        return Knockout(parameter_from_plain(plain["parameter"]), plain["knockout_prob"])
    made = _simple(kind, plain)
    made.stated = plain.get("stated", True)
    return made


def _simple(kind: str, plain: Mapping[str, Any]) -> Parameter:
    default = plain["default"]
    if kind == "choice":
        return Choice(plain["values"], default=default, log=plain["log"])
    if kind == "flag":
        return Flag(default=default)
    if kind == "range":
        return Range(plain["low"], plain["high"], plain["step"], log=plain["log"], default=default)
    if kind == "permutation":
        return Permutation(plain["items"], default=default)
    if kind == "subset":
        sizes = {"min_size": plain["min_size"], "max_size": plain["max_size"]}
        return Subset(plain["items"], default=default, **sizes)
    raise SpaceError(f"the space cannot be read: there is no kind of parameter called {kind!r}")


def _space(space: Space, constraint: Callable[[Constraint], dict[str, Any]]) -> dict[str, Any]:
    return {
        "parameters": {name: _parameter(one, constraint) for name, one in space.parameters.items()},
        "constraints": [constraint(one) for one in space.constraints],
    }


def _parameter(one: Parameter, constraint: Callable[[Constraint], dict[str, Any]]) -> dict[str, Any]:
    if isinstance(one, Conditional):
        conditions = [constraint(condition) for condition in one.conditions]
        return {"kind": "conditional", "when": conditions, "parameter": _parameter(one.inner, constraint)}
    if isinstance(one, Knockout):
        inner = _parameter(one.inner, constraint)
        return {"kind": "knockout", "knockout_prob": one.knockout_prob, "parameter": inner}
    default = {"default": as_plain(one.default), "stated": one.stated}
    if isinstance(one, Flag):
        return {"kind": "flag", **default}
    if isinstance(one, Choice):
        return {"kind": "choice", "values": list(one.values() or ()), "log": one.log, **default}
    if isinstance(one, Range):
        grid = {"low": one.low, "high": one.high, "step": one.step}
        return {"kind": "range", **grid, "log": one.log, **default}
    if isinstance(one, Permutation):
        return {"kind": "permutation", "items": list(one.items), **default}
    if isinstance(one, Subset):
        sizes = {"min_size": one.min_size, "max_size": one.max_size}
        return {"kind": "subset", "items": list(one.items), **sizes, **default}
    raise NotRepresentableError(f"a parameter of the kind {type(one).__name__} cannot be written as JSON")


def constraint_to_plain(constraint: Constraint) -> dict[str, Any]:
    """A constraint as plain JSON. Raises NotRepresentableError for a callable."""
    if constraint.expression is None:
        raise NotRepresentableError(
            f"the constraint {constraint.name!r} is a function, which no file can hold; write it as an "
            "expression of parameter names"
        )
    return {
        "name": constraint.name,
        "expression": constraint.expression.text,
        "parameters": list(constraint.scope or ()),
    }


def describe_constraint(constraint: Constraint) -> dict[str, Any]:
    """A constraint as plain JSON, a callable by its name and code."""
    if constraint.expression is not None:
        return constraint_to_plain(constraint)
    code = getattr(constraint.condition, "__code__", None)
    return {
        "name": constraint.name,
        "callable": getattr(constraint.condition, "__qualname__", constraint.name),
        "code": _code_hash(code) if isinstance(code, CodeType) else "",
        "parameters": None if constraint.scope is None else list(constraint.scope),
    }


def _code_hash(code: CodeType) -> str:
    digest = hashlib.sha256(code.co_code)
    for constant in code.co_consts:
        inner = _code_hash(constant) if isinstance(constant, CodeType) else repr(constant)
        digest.update(inner.encode())
    digest.update(repr(code.co_names).encode())
    return digest.hexdigest()[:16]
