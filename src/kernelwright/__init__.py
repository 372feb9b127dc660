"""Make an operator fast, and prove it.

The public names are `__all__` below. Importing the package loads torch and the operators' interfaces only
when one of them is used; kernels register at the first call, or when the registry is asked.
"""

from __future__ import annotations

import importlib
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright import dispatch
    from kernelwright import ops
    from kernelwright.dispatch import backends
    from kernelwright.dispatch import explain
    from kernelwright.dispatch import get_current_backend
    from kernelwright.dispatch import implementations
    from kernelwright.dispatch import is_backend_available
    from kernelwright.dispatch import operators
    from kernelwright.dispatch import register_impl
    from kernelwright.dispatch import set_backend
    from kernelwright.dispatch import use_backend
    from kernelwright.referee import bench
    from kernelwright.tuning import load_run
    from kernelwright.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "backends",
    "bench",
    "dispatch",
    "explain",
    "get_current_backend",
    "implementations",
    "is_backend_available",
    "load_run",
    "operators",
    "ops",
    "register_impl",
    "set_backend",
    "tune",
    "use_backend",
]

_ROOMS = {
    **dict.fromkeys(
        (
            "backends",
            "explain",
            "get_current_backend",
            "implementations",
            "is_backend_available",
            "operators",
            "register_impl",
            "set_backend",
            "use_backend",
        ),
        "kernelwright.dispatch",
    ),
    "bench": "kernelwright.referee",
    **dict.fromkeys(("load_run", "tune"), "kernelwright.tuning"),
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(importlib.import_module(_ROOMS[name]), name)
    if name in ("dispatch", "ops"):
        return importlib.import_module(f"kernelwright.{name}")
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _connect() -> None:
    """Register the operators and their kernels; dispatch calls it before it plans its first call."""
    importlib.import_module("kernelwright.ops")
    importlib.import_module("kernelwright.kernels").connect()
    importlib.import_module("kernelwright.kernels").connect()
