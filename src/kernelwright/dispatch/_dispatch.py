"""`@dispatch`: an interface becomes a function that is served by implementations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from kernelwright.dispatch import _plan
from kernelwright.dispatch import _registry
from kernelwright.dispatch._closure import make_closure
from kernelwright.dispatch._registry import Operator
from kernelwright.dispatch._signature import read_signature
from kernelwright.errors import UsageError

R = TypeVar("R")


def dispatch(name: str, spec: Any = None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Make the decorated signature the one interface of operator `name`; its body never runs.

    The function that results also takes `out=` (where the interface does not), `backend=` (use exactly this
    backend, or raise) and the extra keywords that implementations declare. Without a `spec` the operator
    works, but nothing can be checked or tuned, and `explain` says so.

    Raises UsageError for a name or signature that cannot be dispatched.
    """
    if not name.isidentifier():
        raise UsageError(f"@dispatch({name!r}): an operator's name is a Python name")

    def decorate(interface: Callable[..., R]) -> Callable[..., R]:
        signature = read_signature(name, interface)
        operator = Operator(name, signature, spec, (interface.__doc__ or "").strip())
        operator.namespace["_kw_torch"] = None
        function = make_closure(operator, interface, functools.partial(_plan.serve, operator))
        _registry.add_operator(operator)
        return function

    return decorate
