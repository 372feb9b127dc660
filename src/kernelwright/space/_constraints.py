"""Constraints: named conditions over some parameters, written as expressions or callables."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space._parameters import Value

Configuration: TypeAlias = dict[str, Value]

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "max": max,
    "min": min,
}
_ALLOWED = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.UAdd,
    ast.Invert,
    ast.BinOp,
    ast.operator,
    ast.Compare,
    ast.cmpop,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.Tuple,
    ast.List,
)


class Constraint:
    """A condition that a configuration must meet.

    `condition` is an expression over parameter names (`"tile_m * tile_n <= 4096"`: arithmetic, comparisons,
    `and or not in if`, and abs ceil floor log2 max min), or a callable whose arguments are named as the
    parameters it looks at; the single argument name `configuration` gets all of them. `scope` holds the
    parameters it looks at, None for all.
    """

    def __init__(self, condition: str | Callable[..., bool], name: str | None = None) -> None:
        self.name: str
        self.scope: tuple[str, ...] | None
        if isinstance(condition, str):
            self.name = name or condition.strip()
            self.scope, self._test = _expression(condition)
        else:
            self.name = name or str(getattr(condition, "__name__", repr(condition)))
            self._test = condition
            arguments = tuple(inspect.signature(condition).parameters)
            self.scope = None if arguments == ("configuration",) else arguments

    def __repr__(self) -> str:
        return f"Constraint({self.name!r})"

    def bound_to(self, names: Collection[str]) -> None:
        """Check that all parameters it looks at exist. Raises UnknownNameError naming the constraint."""
        for name in self.scope or ():
            if name not in names:
                raise UnknownNameError(f"parameter of the constraint {self.name!r}", name, names)

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        """Whether the condition is met. Raises SpaceError when it cannot be worked out."""
        try:
            if self.scope is None:
                return bool(self._test(configuration))
            return bool(self._test(**{name: configuration[name] for name in self.scope}))
        except (ArithmeticError, TypeError, ValueError) as error:
            seen = {name: configuration[name] for name in self.scope or configuration}
            raise SpaceError(f"the constraint {self.name!r} fails on {seen}: {error}") from error


def _expression(text: str) -> tuple[tuple[str, ...], Callable[..., bool]]:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise SpaceError(f"the constraint {text!r} is not an expression: {error.msg}") from error
    names: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise SpaceError(
                f"the constraint {text!r} uses {type(node).__name__}; pass a function for what is more than "
                "arithmetic and comparisons"
            )
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        ):
            raise SpaceError(f"the constraint {text!r} calls more than {', '.join(_FUNCTIONS)}")
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS and node.id not in names:
            names.append(node.id)
    code = compile(tree, "<constraint>", "eval")

    def test(**values: Value) -> bool:
        return bool(eval(code, {"__builtins__": {}, **_FUNCTIONS}, values))

    return tuple(sorted(names)), test


#: What `Space` takes as a constraint.
ConstraintLike: TypeAlias = Constraint | str | Callable[..., bool]
