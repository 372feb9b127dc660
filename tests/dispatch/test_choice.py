"""Who serves a call: `backend=` › `use_backend` › `set_backend` or environment › rank › torch."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
import torch

import kernelwright as kw
from kernelwright.dispatch import clear_plans
from kernelwright.dispatch import register_backend
from kernelwright.dispatch import register_impl
from kernelwright.errors import BackendUnavailableError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UnsupportedCallError

X = torch.ones(2, 3)


def test_the_highest_rank_serves_where_nothing_is_preferred(scale):
    scale.call(X, X)
    assert scale.served == ["fast"]
    assert kw.get_current_backend() is None


def test_a_refusal_lets_the_next_one_serve_and_is_kept_for_explain(scale):
    scale.refuse = lambda call: "rows are odd" if call.tensors["x"].shape[0] % 2 else None
    scale.call(X[:1], X[:1])
    scale.call(X, X)
    assert scale.served == ["torch", "fast"]
    assert kw.explain("scale", X[:1], X[:1]).refusals == {"fast": "rows are odd"}
    assert kw.explain("scale", X, X).refusals == {"torch": "fast comes first (rank)"}


def test_each_preference_beats_the_one_below_it(scale, monkeypatch):
    register_impl("scale", "third", rank=-1)(lambda x, weight, *, factor=1.0: scale.served.append("third"))
    monkeypatch.setenv("KERNELWRIGHT_BACKEND", "torch")
    clear_plans()
    scale.call(X, X)
    kw.set_backend("third")
    scale.call(X, X)
    with kw.use_backend("torch"):
        assert kw.get_current_backend() == "torch"
        scale.call(X, X)
        scale.call(X, X, backend="fast")
        with kw.use_backend("fast"):
            scale.call(X, X)
        scale.call(X, X)
    scale.call(X, X)
    assert kw.get_current_backend() == "third"
    kw.set_backend(None)
    assert kw.get_current_backend() == "torch"
    scale.call(X, X)
    assert scale.served == ["torch", "third", "torch", "fast", "fast", "torch", "third", "torch"]


def test_the_scope_holds_in_its_own_thread_and_task_only(scale):
    with kw.use_backend("torch"):
        thread = threading.Thread(target=lambda: scale.call(X, X))
        thread.start()
        thread.join()
        scale.call(X, X)
    assert scale.served == ["fast", "torch"]

    async def one(name: str) -> str | None:
        with kw.use_backend(name):
            await asyncio.sleep(0.01)
            return kw.get_current_backend()

    async def both() -> list[str | None]:
        return await asyncio.gather(one("torch"), one("fast"))

    assert asyncio.run(both()) == ["torch", "fast"]


def test_an_explicit_backend_that_does_not_support_the_call_is_an_error_with_reasons(scale):
    scale.refuse = lambda call: "not today"
    with pytest.raises(UnsupportedCallError, match="fast: not today") as caught:
        scale.call(X, X, backend="fast")
    assert dict(caught.value.refusals)["fast"] == "not today"
    assert scale.served == []


@pytest.mark.parametrize("prefer", ["scope", "process", "environment"])
def test_a_preference_that_does_not_support_the_call_is_an_error_too(scale, prefer, monkeypatch):
    scale.refuse = lambda call: "not today"
    if prefer == "environment":
        monkeypatch.setenv("KERNELWRIGHT_BACKEND", "fast")
        clear_plans()
    elif prefer == "process":
        kw.set_backend("fast")
    scope = kw.use_backend("fast") if prefer == "scope" else contextlib.nullcontext()
    with scope, pytest.raises(UnsupportedCallError, match="not today"):
        scale.call(X, X)


def test_a_backend_without_an_implementation_of_the_operator_says_so(scale):
    @kw.dispatch("other")
    def other(x: torch.Tensor) -> torch.Tensor: ...

    register_impl("other", "torch")(lambda x: x)
    with pytest.raises(UnsupportedCallError, match="'other' has no implementation on this backend"):
        other(X, backend="fast")


def test_a_misspelt_backend_is_an_error_with_the_nearest_name(scale):
    for ask in (
        lambda: scale.call(X, X, backend="tritn"),
        lambda: kw.set_backend("tritn"),
        lambda: kw.use_backend("tritn").__enter__(),
        lambda: kw.is_backend_available("tritn"),
    ):
        with pytest.raises(UnknownNameError, match="unknown backend 'tritn'; did you mean 'triton'"):
            ask()
    assert kw.get_current_backend() is None


def test_a_misspelt_backend_in_the_environment_is_an_error_at_the_call(scale, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_BACKEND", "tritn")
    clear_plans()
    with pytest.raises(UnknownNameError, match="triton"):
        scale.call(X, X)


def test_an_unavailable_backend_is_an_error_with_the_reason(scale):
    register_backend("fast", lambda: "no licence; buy one")
    assert not kw.is_backend_available("fast")
    assert kw.backends()["fast"] == "no licence; buy one"
    for ask in (lambda: scale.call(X, X, backend="fast"), lambda: kw.set_backend("fast")):
        with pytest.raises(
            BackendUnavailableError, match="'fast' is not available here: no licence; buy one"
        ):
            ask()


def test_a_known_backend_with_nothing_registered_is_unavailable_not_unknown():
    assert kw.is_backend_available("torch")
    assert not kw.is_backend_available("cutile")


def test_an_unavailable_implementation_is_passed_over_with_its_reason(scale):
    register_impl("scale", "gpu", rank=9, available=lambda: "no GPU")(lambda x, weight, *, factor=1.0: x)
    scale.call(X, X)
    assert scale.served == ["fast"]
    assert kw.explain("scale", X, X).refusals["gpu"] == "no GPU"


def test_a_wanted_gradient_goes_to_an_implementation_that_has_one(scale):
    w = torch.nn.Parameter(X.clone())
    scale.call(X, w).sum().backward()
    assert w.grad is not None
    with torch.no_grad():
        scale.call(X, w)
    with torch.inference_mode():
        scale.call(X, w)
    assert scale.served == ["torch", "fast", "fast"]
    assert kw.explain("scale", X, w).refusals == {"fast": "a gradient is wanted and it has none"}


def test_an_operator_that_nobody_implements_says_so():
    @kw.dispatch("bare")
    def bare(x: torch.Tensor) -> torch.Tensor: ...

    with pytest.raises(UnsupportedCallError, match="no implementation is registered"):
        bare(X)
