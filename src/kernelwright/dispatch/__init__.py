"""Which implementation runs this call: registry, capability predicates, plans, preferences, explanations.

The room is callable as its decorator, so that `kernelwright.dispatch("name")` means what it says although a
package's attribute of this name is the room. Where types are checked, import the decorator from here.
"""

import sys
import types
from typing import Any

from kernelwright.dispatch._announce import announce
from kernelwright.dispatch._backends import backends
from kernelwright.dispatch._backends import get_current_backend
from kernelwright.dispatch._backends import is_backend_available
from kernelwright.dispatch._backends import register_backend
from kernelwright.dispatch._backends import set_backend
from kernelwright.dispatch._backends import use_backend
from kernelwright.dispatch._call import Call
from kernelwright.dispatch._call import dense_strides
from kernelwright.dispatch._call import tensor_info
from kernelwright.dispatch._call import TensorInfo
from kernelwright.dispatch._dispatch import dispatch
from kernelwright.dispatch._explain import explain
from kernelwright.dispatch._explain import Explanation
from kernelwright.dispatch._registry import clear_plans
from kernelwright.dispatch._registry import Implementation
from kernelwright.dispatch._registry import implementations
from kernelwright.dispatch._registry import on_first_use
from kernelwright.dispatch._registry import operators
from kernelwright.dispatch._registry import parameters
from kernelwright.dispatch._registry import register_impl
from kernelwright.dispatch._registry import spec

__all__ = [
    "Call",
    "Explanation",
    "Implementation",
    "TensorInfo",
    "announce",
    "backends",
    "clear_plans",
    "dense_strides",
    "dispatch",
    "explain",
    "get_current_backend",
    "implementations",
    "is_backend_available",
    "on_first_use",
    "operators",
    "parameters",
    "register_backend",
    "register_impl",
    "set_backend",
    "spec",
    "tensor_info",
    "use_backend",
]


class _CallableRoom(types.ModuleType):
    def __call__(self, name: str, spec: Any = None) -> Any:
        return dispatch(name, spec)


sys.modules[__name__].__class__ = _CallableRoom
