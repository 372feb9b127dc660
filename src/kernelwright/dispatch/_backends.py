"""Which backend is preferred, by whom; which can be used here, and why not."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from kernelwright import settings
from kernelwright.dispatch import _registry
from kernelwright.errors import BackendUnavailableError
from kernelwright.errors import UnknownNameError

#: Backends that have a name before anything is registered for them.
_NAMED = ("torch", "cpu", "triton", "cutile")

_scope: contextvars.ContextVar[str | None] = contextvars.ContextVar("kernelwright_backend", default=None)
_chosen: str | None = None
_checks: dict[str, Callable[[], str | None]] = {}

#: The innermost `use_backend` of this context, or None.
scope = _scope.get


def register_backend(name: str, available: Callable[[], str | None]) -> None:
    """Make a backend known; `available()` returns None where it can be used, else the reason and a next step.

    Not needed for a backend whose implementations each say whether they are available.
    """
    _checks[name] = available
    _registry.clear_plans()


def names() -> tuple[str, ...]:
    """Every backend that has a name here, sorted."""
    _registry.connect()
    registered = {one.backend for operator in _registry.all_operators() for one in operator.implementations}
    return tuple(sorted({*_NAMED, *_checks, *registered}))


def unavailable(name: str) -> str | None:
    """Why a known backend cannot be used here, or None. Raises UnknownNameError."""
    known = names()
    if name not in known:
        raise UnknownNameError("backend", name, known)
    if name in _checks and (reason := _checks[name]()):
        return reason
    reasons = [
        one.available()
        for operator in _registry.all_operators()
        for one in operator.implementations
        if one.backend == name
    ]
    if not reasons:
        return "no implementation is registered for it"
    return None if None in reasons else reasons[0]


def require(name: str) -> str:
    """`name`, if it can be used here. Raises UnknownNameError, BackendUnavailableError."""
    if reason := unavailable(name):
        raise BackendUnavailableError(name, reason)
    return name


def backends() -> Mapping[str, str | None]:
    """Every known backend, with None where it can be used here, else the reason."""
    return {name: unavailable(name) for name in names()}


def is_backend_available(name: str) -> bool:
    """Whether a backend can be used here. Raises UnknownNameError for a name that no backend has."""
    return unavailable(name) is None


def set_backend(name: str | None) -> None:
    """Prefer a backend in this process from now on; None: choose per call again.

    A preference is kept, not hinted: a call that the backend does not support raises UnsupportedCallError.
    Raises UnknownNameError, BackendUnavailableError.
    """
    global _chosen
    _chosen = None if name is None else require(name)
    _registry.clear_plans()


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Prefer a backend inside the `with` block, in this thread or task only. Raises as `set_backend`."""
    token = _scope.set(sys.intern(require(name)))
    try:
        yield
    finally:
        _scope.reset(token)


def preference() -> tuple[str, str] | None:
    """The preferred backend and who prefers it: `use_backend`, `set_backend` or `KERNELWRIGHT_BACKEND`."""
    if (name := scope()) is not None:
        return name, "use_backend"
    if _chosen is not None:
        return _chosen, "set_backend"
    if (name := settings.backend()) is not None:
        return name, "KERNELWRIGHT_BACKEND"
    return None


def get_current_backend() -> str | None:
    """The backend preferred for calls made here and now; None: each call is served by what is best."""
    preferred = preference()
    return preferred[0] if preferred else None
