"""Operators, their implementations, and when the plans made from them are void."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import overload
from typing import TypeVar

from kernelwright import winners
from kernelwright.dispatch._call import Call
from kernelwright.dispatch._signature import Kind
from kernelwright.dispatch._signature import Signature
from kernelwright.dispatch._table import Table
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.space import Space

_log = logging.getLogger("kernelwright")

F = TypeVar("F", bound=Callable[..., Any])
Bind = Callable[[Mapping[str, Any]], Callable[..., Any]]


def _always(*_: object) -> None:
    return None


def _nothing() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Implementation:
    """One way to compute an operator on one backend.

    Attributes:
        name: unique within the operator; the backend's name unless it was given.
        rank: the higher one serves where no preference and no winner decides; torch always comes last.
        supports: None for a call it can serve, else the reason. Looks at nothing but the call, and is pure.
        bind: configuration → callable with the operator's signature and `out=None`. Where that callable has
            an attribute `specialize(call) -> callable`, the specialised one serves all calls like `call`,
            called positionally with the operator's parameters in order, then out. Where that one has an
            attribute `by_address`, calls with `out=` use it: it takes the addresses of the tensors in order,
            then of out, and returns a status, of which the attribute `failed` makes an error unless zero.
        tunables: what a configuration chooses, or None.
        keywords: extra keyword arguments that it takes.
        gradient: whether its result is differentiable.
        takes_out: whether it can write to a given output.
        available: None where it can be used, else the reason and a next step.
        provenance: what a winner depends on besides the machine (source hash, compiler), as it is now.
    """

    operator: str
    backend: str
    name: str
    rank: int
    supports: Callable[[Call], str | None]
    bind: Bind
    tunables: Space | None
    keywords: tuple[str, ...]
    gradient: bool
    takes_out: bool
    available: Callable[[], str | None]
    provenance: Callable[[], Mapping[str, str]]


@dataclass
class Operator:
    """One operator: its interface, what is registered for it, and the plans that serve it."""

    name: str
    signature: Signature
    spec: Any
    doc: str
    implementations: list[Implementation] = field(default_factory=list)
    #: What implementations answered: bound configurations, errors of bind, availability, provenance.
    bound: dict[Any, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    #: Globals of the generated function. `_kw_table`: the plans; `_kw_torch`: what torch.compile traces.
    namespace: dict[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The plans that serve calls now."""
        table: Table = self.namespace["_kw_table"]
        return table

    def clear(self) -> None:
        """Forget every plan and binding."""
        values = sum(one.kind is not Kind.TENSOR for one in self.signature.parameters)
        with self.lock:
            self.bound.clear()
            self.namespace["_kw_table"] = Table(values + 3)


_operators: dict[str, Operator] = {}
_connected = False
_hooks_lock = threading.RLock()


def clear_plans() -> None:
    """Make every plan void. Needed by hand only after an environment variable of ours was changed."""
    for operator in list(_operators.values()):
        operator.clear()


winners.on_change(clear_plans)


def on_first_use(hook: Callable[[], object]) -> None:
    """Call `hook` once, before the next call is planned or the registry is asked: where kernels register."""
    global _connected
    with _hooks_lock:
        _hooks.append(hook)
        _connected = False


def connect() -> None:
    """Run the hooks of `on_first_use` that have not run; other threads wait until they have."""
    global _connected
    if _connected:
        return
    with _hooks_lock:
        while _hooks:
            # Taken off the list first: a hook registers implementations, which comes back here.
            hook = _hooks.pop(0)
            try:
                hook()
            except BaseException:
                _hooks.insert(0, hook)
                raise
        _connected = True


def _connect_package() -> None:
    # The package alone knows the rooms below this one.
    package = importlib.import_module("kernelwright")
    package._connect()


_hooks: list[Callable[[], object]] = [_connect_package]


def add_operator(operator: Operator) -> None:
    """Register an operator, in place of an earlier one of the same name."""
    if operator.name in _operators:
        _log.info("operator %r is defined anew; implementations of the former are dropped", operator.name)
    operator.clear()
    _operators[operator.name] = operator


def find_operator(name: str) -> Operator:
    """The operator called `name`. Raises UnknownNameError."""
    if name not in _operators:
        connect()
    if name not in _operators:
        raise UnknownNameError("operator", name, _operators)
    return _operators[name]


def all_operators() -> tuple[Operator, ...]:
    """Every operator, by name."""
    return tuple(_operators[name] for name in sorted(_operators))


def operators() -> tuple[str, ...]:
    """The names of all operators, sorted."""
    connect()
    return tuple(sorted(_operators))


def implementations(operator: str) -> tuple[Implementation, ...]:
    """What is registered for an operator, best declared rank first, torch last. Raises UnknownNameError."""
    connect()
    return tuple(
        sorted(find_operator(operator).implementations, key=lambda one: (one.backend == "torch", -one.rank))
    )


def spec(operator: str) -> Any:
    """The specification given to `@dispatch`, or None. Raises UnknownNameError."""
    return find_operator(operator).spec


def parameters(operator: str) -> tuple[str, ...]:
    """The names of an operator's parameters, in order. Raises UnknownNameError."""
    return find_operator(operator).signature.names


@overload
def register_impl(
    operator: str,
    backend: str,
    *,
    bind: Bind,
    name: str | None = None,
    supports: Callable[[Call], str | None] | None = None,
    tunables: Space | None = None,
    rank: int = 0,
    gradient: bool | None = None,
    keywords: tuple[str, ...] = (),
    available: Callable[[], str | None] | None = None,
    provenance: Callable[[], Mapping[str, str]] | None = None,
) -> Implementation: ...


@overload
def register_impl(
    operator: str,
    backend: str,
    *,
    bind: None = None,
    name: str | None = None,
    supports: Callable[[Call], str | None] | None = None,
    tunables: Space | None = None,
    rank: int = 0,
    gradient: bool | None = None,
    keywords: tuple[str, ...] = (),
    available: Callable[[], str | None] | None = None,
    provenance: Callable[[], Mapping[str, str]] | None = None,
) -> Callable[[F], F]: ...


def register_impl(
    operator: str,
    backend: str,
    *,
    name: str | None = None,
    supports: Callable[[Call], str | None] | None = None,
    tunables: Space | None = None,
    bind: Bind | None = None,
    rank: int = 0,
    gradient: bool | None = None,
    keywords: tuple[str, ...] = (),
    available: Callable[[], str | None] | None = None,
    provenance: Callable[[], Mapping[str, str]] | None = None,
) -> Implementation | Callable[[F], F]:
    """Register one way to compute `operator` on `backend`.

    Without `bind`, returns a decorator for a function with the operator's parameters, `out=None` if it can
    write there, and any extra keywords, which it thereby declares. With `bind`, registers at once and returns
    the Implementation. A second registration of the same name replaces the first. `gradient` says whether the
    result is differentiable; a function of the torch backend is unless told otherwise.

    Raises UnknownNameError for an operator that has no interface.
    """
    target = find_operator(operator)

    def add(bind: Bind, keywords: tuple[str, ...], takes_out: bool) -> Implementation:
        implementation = Implementation(
            operator=operator,
            backend=backend,
            name=name or backend,
            rank=rank,
            supports=supports or _always,
            bind=bind,
            tunables=tunables,
            keywords=keywords,
            gradient=backend == "torch" if gradient is None else gradient,
            takes_out=takes_out,
            available=available or _always,
            provenance=provenance or _nothing,
        )
        with target.lock:
            others = [one for one in target.implementations if one.name != implementation.name]
            target.implementations[:] = [*others, implementation]
        clear_plans()
        return implementation

    if bind is not None:
        return add(bind, tuple(keywords), True)

    def decorate(function: F) -> F:
        extra, takes_out = _declared(target, function)
        add(
            lambda _configuration: function,
            (*keywords, *(one for one in extra if one not in keywords)),
            takes_out,
        )
        if backend == "torch":
            target.namespace["_kw_torch"] = target.signature.positional(function, takes_out=takes_out)
        return function

    return decorate


def _declared(target: Operator, function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The extra keywords of a function, and whether it takes `out`. Raises UsageError for one unfit."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a builtin without a signature: its parameters must be the operator's
        return (), False
    own = {parameter.name for parameter in target.signature.parameters}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    missing = [one for one in own if one not in parameters and not takes_any]
    if missing:
        raise UsageError(
            f"{getattr(function, '__name__', function)!s} cannot implement {target.name!r}: "
            f"it lacks the parameter{'s' if len(missing) > 1 else ''} {', '.join(sorted(missing))}"
        )
    named = [
        parameter.name
        for parameter in parameters.values()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    extra = tuple(one for one in named if one not in own and one != "out")
    return extra, "out" in parameters or takes_any
