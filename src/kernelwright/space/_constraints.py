"""Constraints: named conditions over some parameters, written as expressions or callables."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space._expressions import Expression
from kernelwright.space._expressions import parse
from kernelwright.space._parameters import Value

Configuration: TypeAlias = dict[str, Value]

#: What the arithmetic of a condition may raise; anything else is a fault of the program, and not caught.
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Constraint:
    """A condition that a configuration must meet.

    `condition` is an expression over parameter names (`"tile_m * tile_n <= 4096"`: arithmetic, comparisons,
    `and or not in if`, subscripts, and functions such as abs, ceil, log2, len, max, min), or a callable whose
    arguments are named as the parameters it looks at; the single argument name `configuration` gets all of
    them. `scope` holds the parameters it looks at, None for all.

    A constraint is not asked where a parameter that it names is absent (knocked out or not active): it holds
    there. A callable of the whole `configuration` is always asked, and finds None for what is absent.
    """

    def __init__(self, condition: str | Callable[..., bool], name: str | None = None) -> None:
        self.name: str
        self.scope: tuple[str, ...] | None
        self.condition = condition
        self.expression: Expression | None = None
        #: Names under which a callable of the whole configuration knows its `scope`, once it has one.
        self.known_as: tuple[str, ...] | None = None
        self._function: Callable[..., Any]
        if isinstance(condition, str):
            self.name = name or condition.strip()
            self.expression = parse(condition)
            self.scope = self.expression.names
            self._function = self.expression.function()
        else:
            self.name = name or str(getattr(condition, "__name__", repr(condition)))
            self.scope = self._arguments(condition)
            self._function = condition

    def __getstate__(self) -> dict[str, Any]:
        # The function of an expression is compiled again where it goes.
        compiled = self.expression is not None
        return {
            name: value for name, value in self.__dict__.items() if not (compiled and name == "_function")
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        if self.expression is not None:
            self._function = self.expression.function()

    def __repr__(self) -> str:
        return f"Constraint({self.name!r})"

    def bound_to(self, names: Collection[str], within: str = "") -> Constraint:
        """This constraint with the full names of its parameters, among `names`.

        A name stands for the parameter of that name beside it (in the part `within`, a prefix that ends with
        a dot), else in the parts around that, else for the one parameter whose name ends with it after a dot.
        Raises UnknownNameError naming the constraint, SpaceError for a name that could mean several.
        """
        if self.scope is None:
            return self
        scope = tuple(self._resolve(name, names, within) for name in self.scope)
        return self if scope == self.scope else self._renamed(scope)

    def moved_to(self, prefix: str, names: Sequence[str]) -> Constraint:
        """This constraint, bound to a space of `names`, for the same space as a part called `prefix`."""
        if self.scope is None:
            moved = self._renamed(tuple(prefix + name for name in names))
            moved.known_as = tuple(names)
            return moved
        return self._renamed(tuple(prefix + name for name in self.scope))

    def with_scope(self, scope: tuple[str, ...]) -> Constraint:
        """This constraint about other parameters: one for each name in `scope`, in that order."""
        if self.scope is None or len(scope) != len(self.scope):
            raise SpaceError(f"the constraint {self.name!r} cannot look at {list(scope)}")
        return self if scope == self.scope else self._renamed(scope)

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        """Whether the condition is met. Raises SpaceError when it cannot be worked out."""
        scope = self.scope
        try:
            if scope is None:
                return bool(self._function(configuration))
            values = [configuration[name] for name in scope]
            if self.known_as is not None:
                return bool(self._function(dict(zip(self.known_as, values, strict=True))))
            if None in values:
                return True
            return bool(self._function(*values))
        except _FAULTS as error:
            seen = {name: configuration[name] for name in (configuration if scope is None else scope)}
            raise SpaceError(f"the constraint {self.name!r} fails on {seen}: {error}") from error

    def is_met_by_present(self, configuration: Mapping[str, Value]) -> bool:
        """Whether the condition is met and all that it names is present: what makes a parameter active."""
        if self.known_as is None and any(configuration[name] is None for name in self.scope or ()):
            return False
        return self.holds(configuration)

    def table(self, domains: Sequence[Sequence[Value]]) -> list[bool]:
        """`holds` on the whole grid of the scope's `domains`, the last one running fastest."""
        assert self.scope is not None
        if self.expression is not None and not any(None in domain for domain in domains):
            try:
                return self.expression.table(domains)
            except _FAULTS:
                pass  # said with the values that it fails on, below
        scope = self.scope
        return [self.holds(dict(zip(scope, values, strict=True))) for values in itertools.product(*domains)]

    def _renamed(self, scope: tuple[str, ...]) -> Constraint:
        made = object.__new__(Constraint)
        made.__dict__.update(self.__dict__)
        made.scope = scope
        return made

    def _resolve(self, name: str, names: Collection[str], within: str) -> str:
        prefix = within
        while True:
            if prefix + name in names:
                return prefix + name
            if not prefix:
                break
            prefix = prefix[: prefix[:-1].rfind(".") + 1]
        ending = [known for known in names if known.endswith("." + name)]
        if len(ending) > 1:
            raise SpaceError(
                f"the constraint {self.name!r}: {name!r} could be {' or '.join(map(repr, sorted(ending)))}; "
                "write the whole name, or put the constraint into the part it is about"
            )
        if not ending:
            raise UnknownNameError(f"parameter of the constraint {self.name!r}", name, names)
        return ending[0]

    def _arguments(self, condition: Callable[..., bool]) -> tuple[str, ...] | None:
        try:
            parameters = inspect.signature(condition).parameters.values()
        except (TypeError, ValueError) as error:
            raise SpaceError(f"the constraint {self.name!r} cannot be read: {error}") from error
        for one in parameters:
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.KEYWORD_ONLY):
                raise SpaceError(
                    f"the constraint {self.name!r} takes {one}; name each parameter that it looks at, "
                    "or take one argument called configuration"
                )
        arguments = tuple(one.name for one in parameters)
        return None if arguments == ("configuration",) else arguments


#: What `Space` takes as a constraint.
ConstraintLike: TypeAlias = Constraint | str | Callable[..., bool]
