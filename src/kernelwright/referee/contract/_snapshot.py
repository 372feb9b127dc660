"""Which functions and settings were there before a candidate was imported, and which are others later."""

from __future__ import annotations

import builtins
import ctypes
import gc
import json
import math
import os
import signal
import statistics
import sys
import time
import types
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

#: Honest code replaces these, and nothing of the judge's depends on them.
_FREE = {
    "builtins": frozenset({"print", "input", "breakpoint", "help", "exit", "quit", "_", "__import__"}),
    "torch": frozenset({"Storage"}),  # the storage of the default dtype
    "sys": frozenset({"excepthook", "displayhook", "breakpointhook", "unraisablehook", "exitfunc"}),
}
#: Modules of which every callable is kept, with the code of each function.
_MODULES = (
    *(builtins, sys, time, os, gc, math, statistics, json, ctypes, signal),
    *(torch, torch.nn.functional, torch.testing, torch.linalg, torch.special, torch.fft, torch.autograd),
    *(torch.random, torch.overrides),
)
#: Libraries of which all modules are kept that are loaded, and of which modules the classes, too.
_LIBRARIES, _LAYERS = ("torch", "numpy", "timeit", "random", "datetime"), "torch.nn.modules."
#: Parts that are large and have nothing that a judge would use.
_SKIPPED = ("torch.distributed", "torch.fx", "torch.onnx", "torch.ao", "torch.jit", "torch.export")
_CLASSES = {
    "torch.Tensor": torch.Tensor,
    "torch.nn.Module": torch.nn.Module,
    "torch.autograd.Function": torch.autograd.Function,
    "torch.UntypedStorage": torch.UntypedStorage,
}
_CALLABLE = frozenset(
    {
        *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType),
        *(types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType, property),
        *(types.ClassMethodDescriptorType, classmethod, staticmethod, type, type(torch.Tensor)),
    }
)
_function_type = types.FunctionType
_MISSING = object()
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"


class Snapshot:
    """The callables of torch and numpy, of clocks, of builtins and of the judge's own modules here."""

    def __init__(self, judge: Sequence[types.ModuleType] = ()) -> None:
        """`judge` are the judge's own modules here."""
        self._values: dict[str, dict[str, object]] = {}
        self._scopes: dict[str, Callable[[], Mapping[str, object]]] = {}
        self._codes: list[tuple[str, types.FunctionType, types.CodeType]] = []
        own = sys.modules["__main__"]
        for module in (*_MODULES, own):
            self._keep("the judge's script" if module is own else module.__name__, module)
        for title, kind in _CLASSES.items():
            self._keep(title, kind)
        self._keep_libraries()
        self._judge = [one for module in judge for one in _functions(module, module.__name__)]
        self._judge_codes = [function.__code__ for function in self._judge]
        self._settings = settings()

    def replaced(self) -> Iterator[str]:
        """What was replaced, in words. What torch itself wraps when parts of it are loaded is not."""
        for scope, values in self._values.items():
            now = self._scopes[scope]()
            for name, was in values.items():
                new = now.get(name, _MISSING)
                if new is not was and not _of_torch(new):
                    yield _title(scope, name)
        for name, function, code in self._codes:
            if function.__code__ is not code:
                yield f"the code of {name}"
        changed = [
            function.__name__
            for function, code in zip(self._judge, self._judge_codes, strict=True)
            if function.__code__ is not code
        ]
        if changed:
            yield f"the code of {len(changed)} functions of the judge ({', '.join(changed[:3])}, …)"

    def settings_changed(self) -> Iterator[tuple[str, object, object]]:
        """Settings that have another value: name, then, now."""
        for name, now in settings().items():
            if now != self._settings[name]:
                yield name, self._settings[name], now

    def _keep(self, title: str, scope: Any) -> None:
        kept = self._keep_names(title, lambda: _names(scope))
        for name, value in kept.items():
            if isinstance(value, _function_type):
                self._codes.append((_title(title, name), value, value.__code__))

    def _keep_libraries(self) -> None:
        for title, module in [*sys.modules.items()]:
            if title.partition(".")[0] not in _LIBRARIES or "._" in title or title.startswith(_SKIPPED):
                continue
            if title not in self._values and type(module) is types.ModuleType:
                self._keep_names(title, partial(vars, module))
            if title.startswith(_LAYERS):
                for name, value in [*vars(module).items()]:
                    public = f"torch.nn.{name}"
                    if isinstance(value, type) and value.__module__ == title and public not in self._values:
                        self._keep_names(public, partial(vars, value))

    def _keep_names(self, title: str, names: Callable[[], Mapping[str, object]]) -> dict[str, object]:
        free = _FREE.get(title, frozenset())
        # Asking a value for its class instead would wake what libraries have deprecated.
        kept = {
            name: value for name, value in names().items() if type(value) in _CALLABLE and name not in free
        }
        self._values[title] = kept
        self._scopes[title] = names
        return kept


def _title(scope: str, name: str) -> str:
    return f"{name} of {scope}" if scope == "the judge's script" else f"{scope}.{name}"


def settings() -> dict[str, object]:
    """The settings of torch and of the processor that a candidate may leave changed."""
    return {
        "torch's grad mode": torch.is_grad_enabled(),
        "torch's inference mode": torch.is_inference_mode_enabled(),
        "torch's default dtype": str(torch.get_default_dtype()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "flushing of denormals": 1e-310 * _ONE == 0.0,
    }


_ONE = float("1")


def planted(of_candidate: Callable[[str], bool]) -> list[str]:
    """Functions of a candidate that were put into modules of ours, or numpy's, that it imported itself."""
    found = []
    for title, module in [*sys.modules.items()]:
        if title.partition(".")[0] not in ("kernelwright", "numpy") or not isinstance(
            module, types.ModuleType
        ):
            continue
        for name, value in [*vars(module).items()]:
            if isinstance(value, _function_type) and of_candidate(value.__code__.co_filename):
                found.append(f"{title}.{name}")
    return found


def _functions(scope: Any, module: str) -> Iterator[types.FunctionType]:
    """The functions that a module of ours defines, those of its classes included."""
    for value in vars(scope).values():
        if isinstance(value, _function_type) and value.__module__ == module:
            yield value
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions(value, module)


def _of_torch(value: object, depth: int = 4) -> bool:
    """Whether a function is torch's own, with all that it closes over: its compiler wraps some."""
    if not isinstance(value, _function_type) or not value.__code__.co_filename.startswith(_TORCH):
        return False
    for cell in value.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue  # still empty
        if isinstance(held, _function_type) and (not depth or not _of_torch(held, depth - 1)):
            return False
    return True


def _names(scope: Any) -> dict[str, object]:
    """What a name in the scope means; for a class, bases included."""
    if not isinstance(scope, type):
        return dict(vars(scope))
    names: dict[str, object] = {}
    for kind in reversed(scope.__mro__):
        names.update(vars(kind))
    return names
