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
from typing import Any

import torch

#: Honest code replaces these, and nothing of the judge's depends on them.
_FREE = {
    "builtins": frozenset({"print", "input", "breakpoint", "help", "exit", "quit", "_", "__import__"}),
    "torch": frozenset({"manual_seed"}),  # torch._dynamo wraps it when it is imported
    "sys": frozenset({"excepthook", "displayhook", "breakpointhook", "unraisablehook", "exitfunc"}),
}
#: Modules of which every callable is kept.
_MODULES = (
    *(builtins, sys, time, os, gc, math, statistics, json, ctypes, signal),
    *(torch, torch.nn.functional, torch.testing, torch.linalg, torch.special, torch.fft, torch.autograd),
    *(torch.random, torch.overrides),
)
_CLASSES = (torch.Tensor, torch.nn.Module, torch.autograd.Function, torch.nn.Parameter, torch.UntypedStorage)
_CALLABLE = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType, property),
    *(classmethod, staticmethod, type),
)
_function_type = types.FunctionType
_MISSING = object()


class Snapshot:
    """The callables of torch, of clocks, of builtins and of the judge's own modules here."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, object]] = {}
        self._scopes: dict[str, Any] = {}
        self._codes: list[tuple[str, types.FunctionType, types.CodeType]] = []
        own = sys.modules["__main__"]
        for module in (*_MODULES, own):
            self._keep(module.__name__, module)
        for kind in _CLASSES:
            self._keep(f"{_public(kind)}", kind)
        self._keep_judge()
        self._settings = settings()

    def replaced(self) -> Iterator[tuple[str, str]]:
        """What was replaced: its name, and a word on how where that is not plain."""
        for scope, values in self._values.items():
            now = _names(self._scopes[scope])
            for name, was in values.items():
                if now.get(name, _MISSING) is not was:
                    title = "the judge's main script" if scope == "__main__" else scope
                    yield f"{title}.{name}" if title is scope else f"{name} of {title}", ""
        for name, function, code in self._codes:
            if function.__code__ is not code:
                yield name, "its code was changed"

    def settings_changed(self) -> Iterator[tuple[str, object, object]]:
        """Settings that have another value: name, then, now."""
        for name, now in settings().items():
            if now != self._settings[name]:
                yield name, self._settings[name], now

    def _keep(self, title: str, scope: Any) -> None:
        free = _FREE.get(title, frozenset())
        kept = {
            name: value
            for name, value in _names(scope).items()
            if name not in free and isinstance(value, _CALLABLE)
        }
        self._values[title] = kept
        self._scopes[title] = scope
        for name, value in kept.items():
            if isinstance(value, _function_type):
                self._codes.append((f"{title}.{name}", value, value.__code__))

    def _keep_judge(self) -> None:
        """Our own functions here cannot be found by name, but by looking through memory."""
        prefix = __name__.rpartition(".")[0]
        for one in gc.get_objects():
            if type(one) is _function_type and str(one.__module__).startswith(prefix):
                self._codes.append(("the judge's function " + one.__qualname__, one, one.__code__))


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
    """Functions of a candidate that were put into modules of ours that it imported itself."""
    found = []
    for title, module in [*sys.modules.items()]:
        if title.partition(".")[0] != "kernelwright" or not isinstance(module, types.ModuleType):
            continue
        for name, value in [*vars(module).items()]:
            if isinstance(value, _function_type) and of_candidate(value.__code__.co_filename):
                found.append(f"{title}.{name}")
    return found


def _names(scope: Any) -> dict[str, object]:
    """What a name in the scope means; for a class, bases included."""
    if not isinstance(scope, type):
        return vars(scope)
    names: dict[str, object] = {}
    for kind in reversed(scope.__mro__):
        names.update(vars(kind))
    return names


def _public(kind: type) -> str:
    return "torch.Tensor" if kind is torch.Tensor else f"{kind.__module__}.{kind.__qualname__}"
