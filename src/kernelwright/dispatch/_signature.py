"""An operator's signature: what each parameter may be, and source text generated from it."""

from __future__ import annotations

import inspect
import numbers
import types
import typing
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torch import Tensor

from kernelwright.errors import ArgumentTypeError
from kernelwright.errors import UsageError


class Kind(StrEnum):
    """What a parameter holds, as far as its annotation says."""

    TENSOR = "tensor"
    OPTIONAL_TENSOR = "optional tensor"
    VALUE = "value"
    """A hashable value: a number, a string, a dtype."""
    OPAQUE = "opaque"
    """No annotation that says more; looked at call by call."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operator."""

    name: str
    kind: Kind
    annotation: Any
    default: Any
    keyword_only: bool

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Signature:
    """The parameters of an operator, without `out`, `backend` and extra keywords, in order."""

    operator: str
    parameters: tuple[Parameter, ...]
    #: Where `out` stands in the interface: its index, or None where dispatch adds it as a keyword.
    out_index: int | None

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names in order."""
        return tuple(parameter.name for parameter in self.parameters)

    def head(self) -> str:
        """The text between the parentheses of the generated function; defaults are named `_kw_d_<name>`."""
        positional: list[str] = []
        keyword: list[str] = []
        for parameter in self.parameters:
            text = parameter.name if parameter.required else f"{parameter.name}=_kw_d_{parameter.name}"
            (keyword if parameter.keyword_only else positional).append(text)
        if self.out_index is None:
            keyword.append("out=None")
        else:
            positional.insert(self.out_index, "out=None")
        return ", ".join([*positional, "*", *keyword, "backend=None", "**_kw_extra"])

    def defaults(self) -> dict[str, Any]:
        """The names that `head` uses."""
        return {f"_kw_d_{one.name}": one.default for one in self.parameters if not one.required}

    def positional(
        self, function: Callable[..., Any], *, takes_out: bool, extra: Mapping[str, Any] | None = None
    ) -> Callable[..., Any]:
        """`function` as a callable of all parameters and out, by position; `extra` keywords are passed on.

        It is called by name, so that its own order does not matter; a builtin without a signature by
        position.
        """
        by_name = _has_signature(function)
        words = [f"{name}={name}" if by_name else name for name in self.names]
        call = [*words, *(["out=out"] if takes_out else [])]
        namespace: dict[str, Any] = {"_kw_function": function, "_kw_extra": dict(extra or {})}
        if extra:
            call.append("**_kw_extra")
        parameters = ", ".join([*self.names, "out"])
        text = f"def plan({parameters}):\n    return _kw_function({', '.join(call)})\n"
        exec(compile(text, f"<kernelwright plan of {self.operator}>", "exec"), namespace)
        plan: Callable[..., Any] = namespace["plan"]
        return plan

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Values of all parameters in order, and the extra keywords. Raises ArgumentTypeError."""
        words = dict(kwargs)
        rest = list(args)
        values: list[Any] = []
        for one in self.parameters:
            if rest and not one.keyword_only:
                if one.name in words:
                    raise ArgumentTypeError(f"{self.operator}: got several values for {one.name}")
                values.append(rest.pop(0))
            elif one.name in words:
                values.append(words.pop(one.name))
            elif one.required:
                raise ArgumentTypeError(f"{self.operator}: {one.name} is missing")
            else:
                values.append(one.default)
        if rest:
            raise ArgumentTypeError(f"{self.operator}: {len(rest)} positional arguments too many")
        return tuple(values), words

    def check(self, values: tuple[Any, ...], out: Any) -> None:
        """Raise ArgumentTypeError for the first argument of a wrong type, UsageError for an odd layout."""
        for parameter, value in zip(self.parameters, values, strict=True):
            if not accepts(parameter.annotation, value):
                raise ArgumentTypeError(
                    f"{self.operator}: {parameter.name} must be {describe(parameter.annotation)}, "
                    f"got {_shown(value)}"
                )
        if out is not None and not isinstance(out, Tensor):
            raise ArgumentTypeError(f"{self.operator}: out must be a Tensor or None, got {_shown(out)}")


def read_signature(operator: str, interface: Callable[..., Any]) -> Signature:
    """The signature of an interface function. Raises UsageError for one that cannot be dispatched."""
    try:
        hints = typing.get_type_hints(interface)
    except (NameError, TypeError, AttributeError):  # a name that exists for the type checker only
        hints = {}
    parameters: list[Parameter] = []
    out_index: int | None = None
    for index, (name, parameter) in enumerate(inspect.signature(interface).parameters.items()):
        if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(
                f"@dispatch({operator!r}): give {name!r} as an ordinary or keyword-only parameter"
            )
        if parameter.kind is parameter.VAR_KEYWORD or name == "backend":
            continue  # every operator takes these
        if name == "out":
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                out_index = index
            continue
        if name.startswith("_kw_"):
            raise UsageError(f"@dispatch({operator!r}): parameter names that start with _kw_ are reserved")
        annotation = hints.get(name, inspect.Parameter.empty)
        keyword_only = parameter.kind is parameter.KEYWORD_ONLY
        parameters.append(Parameter(name, _kind(annotation), annotation, parameter.default, keyword_only))
    return Signature(operator, tuple(parameters), out_index)


def accepts(annotation: Any, value: Any) -> bool:
    """Whether a value fits an annotation, as far as can be told at run time; a bool is not a number here."""
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return any(accepts(one, value) for one in typing.get_args(annotation))
    if annotation is None:
        return value is None
    if annotation is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if typing.get_origin(annotation) is typing.Literal:
        return value in typing.get_args(annotation)
    if isinstance(annotation, type):
        return isinstance(value, annotation)
    return True  # a generic form that says nothing about one value


def describe(annotation: Any) -> str:
    """An annotation as a person would say it."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " or ".join(describe(one) for one in typing.get_args(annotation))
    if annotation is None or annotation is type(None):
        return "None"
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(repr(one) for one in typing.get_args(annotation))
    name = getattr(annotation, "__name__", str(annotation))
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _kind(annotation: Any) -> Kind:
    if isinstance(annotation, type) and issubclass(annotation, Tensor):
        return Kind.TENSOR
    members = typing.get_args(annotation)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        kinds = {_kind(one) for one in members if one is not type(None)}
        if kinds == {Kind.TENSOR}:
            return Kind.OPTIONAL_TENSOR
        return Kind.VALUE if kinds == {Kind.VALUE} else Kind.OPAQUE
    if annotation in (int, float, bool, str, complex):
        return Kind.VALUE
    if isinstance(annotation, type) and annotation.__module__ == "torch":
        return Kind.VALUE  # dtype, device, layout, memory_format
    return Kind.OPAQUE


def _has_signature(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function)
    except (ValueError, TypeError):
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        hint = "; pass .item()" if value.numel() == 1 else ""
        return f"a Tensor of shape {tuple(value.shape)}{hint}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 40 else text[:37] + '...'}"
