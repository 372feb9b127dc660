"""T1, the format in which Kernel Tuner and BAT describe what is tuned."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from kernelwright.errors import NotRepresentableError
from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Constraint
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._parameters import Scalar
from kernelwright.space._space import Space

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
#: Arithmetic in a list of values is not taken further than this.
_LARGEST = 2**64
_TYPES = {int: "int", float: "float", str: "string", bool: "bool"}


def from_t1(document: Mapping[str, Any]) -> Space:
    """The space of a T1 document: `ConfigurationSpace` with `TuningParameters` and `Conditions`.

    Values are a list, or the text of one: literals, arithmetic, `range`, a comprehension over a range.
    A default that is not among the values, or that the conditions exclude, gives way to the closest valid
    configuration. Raises SpaceError for a document that makes no sense, UnknownNameError for a condition on
    a parameter that is not there.
    """
    try:
        space = document["ConfigurationSpace"]
        tuned = list(space["TuningParameters"])
        conditions = [one["Expression"] for one in space.get("Conditions") or ()]
        entries = [(str(one["Name"]), one["Values"], one.get("Default")) for one in tuned]
    except (AttributeError, KeyError, TypeError) as error:
        raise SpaceError(f"this is no T1 document: {type(error).__name__}: {error}") from error
    parameters: dict[str, Parameter] = {}
    for name, values, default in entries:
        if name in parameters:
            raise SpaceError(f"the T1 document has two parameters called {name!r}")
        parameters[name] = _choice(name, _values(name, values), default)
    return Space(parameters, [Constraint(condition) for condition in conditions])


def to_t1(space: Space, name: str = "space") -> dict[str, Any]:
    """The space as a T1 document. Raises NotRepresentableError naming what T1 cannot hold."""
    tuned = []
    for parameter_name, parameter in space.parameters.items():
        if not parameter_name.isidentifier():
            raise NotRepresentableError(f"T1 cannot hold the parameter name {parameter_name!r}")
        tuned.append(_tuned(parameter_name, parameter, space.default[parameter_name]))
    return {
        "General": {"BenchmarkName": name, "OutputFormat": "JSON"},
        "ConfigurationSpace": {
            "TuningParameters": tuned,
            "Conditions": [_condition(constraint) for constraint in space.constraints],
        },
    }


def _choice(name: str, values: list[Scalar], default: object) -> Choice:
    try:
        here = next((value for value in values if value == default), None)
        made = Choice(values, default=here)
    except SpaceError as error:
        raise SpaceError(f"parameter {name!r}: {error}") from error
    # T1's defaults need not meet the conditions: they are a wish.
    made.stated = False
    return made


def _tuned(name: str, parameter: Parameter, default: object) -> dict[str, Any]:
    values = parameter.values() if isinstance(parameter, Choice | Range) else None
    if values is None:
        raise NotRepresentableError(
            f"T1 holds lists of values only; parameter {name!r} cannot be one: {parameter}"
        )
    types = {type(value) for value in values}
    kind = _TYPES[types.pop()] if len(types) == 1 else "string" if str in types else "float"
    return {"Name": name, "Type": kind, "Values": repr(list(values)), "Default": default}


def _condition(constraint: Constraint) -> dict[str, Any]:
    if constraint.expression is None or constraint.scope is None:
        raise NotRepresentableError(
            f"T1 cannot hold the constraint {constraint.name!r}, which is a function; write it as an "
            "expression"
        )
    text = constraint.expression.text
    if constraint.scope != constraint.expression.names:
        text = constraint.expression.written(constraint.scope)
    return {"Expression": text, "Parameters": list(constraint.scope)}


def _values(name: str, values: object) -> list[Scalar]:
    if isinstance(values, str):
        try:
            values = _evaluated(ast.parse(values.strip(), mode="eval").body, {})
        except (ArithmeticError, SyntaxError, TypeError, ValueError, RecursionError) as error:
            raise SpaceError(
                f"parameter {name!r}: the values {values!r} are no list of literals, a range or a "
                f"comprehension over one: {error}"
            ) from error
    if not isinstance(values, list | tuple | range):
        raise SpaceError(f"parameter {name!r}: the values {values!r} are no list")
    if len(values) > 1_000_000:
        raise SpaceError(f"parameter {name!r}: {len(values)} values are too many to list")
    return list(values)


def _evaluated(node: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_evaluated(one, known) for one in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, known)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluated(node.left, known), _evaluated(node.right, known)
        if not all(isinstance(one, int | float) and abs(one) <= _LARGEST for one in (left, right)):
            raise ValueError(f"{left!r} and {right!r} are not numbers of a sensible size")
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise ValueError(f"the power {right} is too large")
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        arguments = [_evaluated(one, known) for one in node.args]
        if node.func.id == "range":
            return range(*arguments)
        if node.func.id == "list" and len(arguments) == 1:
            return arguments[0]
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        (loop,) = node.generators
        if isinstance(loop.target, ast.Name) and not loop.ifs:
            each = _evaluated(loop.iter, known)
            return [_evaluated(node.elt, {**known, loop.target.id: one}) for one in each[:1_000_001]]
    raise ValueError(f"{ast.unparse(node)!r} is not allowed")
