"""A registry for one test, with operators whose implementations say what they were asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import kernelwright.ops  # noqa: F401  # registered before the registry is copied
from kernelwright.dispatch import _backends
from kernelwright.dispatch import _registry
from kernelwright.dispatch import Call
from kernelwright.dispatch import dispatch
from kernelwright.dispatch import register_impl


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """Nothing that a test registers, prefers or stores outlives it."""
    _registry.connect()
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("KERNELWRIGHT_BACKEND", raising=False)
    monkeypatch.setattr(_registry, "_operators", dict(_registry._operators))
    monkeypatch.setattr(_backends, "_checks", dict(_backends._checks))
    monkeypatch.setattr(_backends, "_chosen", None)
    _registry.clear_plans()
    yield
    _registry.clear_plans()


@dataclasses.dataclass
class Scale:
    """The operator `scale`: x · weight · factor, on torch and on a native stand-in called `fast`."""

    call: Callable[..., Tensor]
    asked: list[Call]
    """Every call that `fast` was asked to support, in order."""
    served: list[str]
    """Who served each call."""
    refuse: Callable[[Call], str | None]
    """What `fast` answers; replace it to refuse."""


@pytest.fixture
def scale() -> Scale:
    @dispatch("scale")
    def scale(x: Tensor, weight: Tensor, *, factor: float = 1.0) -> Tensor:  # type: ignore[empty-body]
        """x · weight · factor."""

    state = Scale(scale, [], [], lambda call: None)

    @register_impl("scale", backend="torch", gradient=True)
    def on_torch(x: Tensor, weight: Tensor, *, factor: float = 1.0, out: Tensor | None = None) -> Tensor:
        if not torch.compiler.is_compiling():
            state.served.append("torch")
        result = x * weight * factor
        return result if out is None else out.copy_(result)

    def supports(call: Call) -> str | None:
        state.asked.append(call)
        return state.refuse(call)

    @register_impl("scale", backend="fast", rank=5, supports=supports, gradient=False)
    def fast(
        x: Tensor, weight: Tensor, *, factor: float = 1.0, out: Tensor | None = None, tile: int = 8
    ) -> Tensor:
        state.served.append("fast" if tile == 8 else f"fast tile={tile}")
        with torch.no_grad():
            result = x.detach() * weight.detach() * factor
            return result if out is None else out.copy_(result)

    return state
