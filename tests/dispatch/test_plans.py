"""How long plans live: bounded in number, void when what they were made from changes, safe under threads."""

from __future__ import annotations

import threading

import pytest
import torch

import kernelwright as kw
from kernelwright import winners
from kernelwright.dispatch import _registry
from kernelwright.dispatch import _table
from kernelwright.dispatch import clear_plans
from kernelwright.dispatch import register_backend
from kernelwright.dispatch import register_impl

X = torch.ones(2, 3)


def warm(scale) -> None:
    for _ in range(3):
        scale.call(X, torch.ones(2, 3))
    scale.asked.clear()
    scale.served.clear()


@pytest.mark.parametrize(
    "change",
    [
        clear_plans,
        lambda: kw.set_backend("fast"),
        lambda: register_backend("fast", lambda: None),
        lambda: register_impl("scale", "another", rank=-5)(lambda x, weight, *, factor=1.0: x),
        lambda: winners.store(winners.Record("scale", "b", "m", "fast", {})),
        lambda: (
            winners.store(winners.Record("scale", "b", "m", "fast", {}))
            or winners.forget("scale", machine="m")
        ),
    ],
    ids=["by hand", "set_backend", "register_backend", "register_impl", "winners.store", "winners.forget"],
)
def test_a_change_makes_plans_void(scale, change):
    warm(scale)
    change()
    scale.call(X, torch.ones(2, 3))
    assert len(scale.asked) == 1, "planned again"


def test_the_number_of_plans_is_bounded(scale, monkeypatch):
    monkeypatch.setattr(_table, "MAX_PLANS", 8)
    for factor in range(50):
        scale.call(X, X, factor=float(factor))
        assert len(_registry.find_operator("scale").table.plans) <= 8
    scale.asked.clear()
    for factor in range(42, 50):
        scale.call(X, X, factor=float(factor))
    assert scale.asked == [], "the newest stay"


def test_a_plan_made_before_a_change_does_not_serve_after_it(scale):
    # The change comes while the call is being planned.
    def refuse(call):
        scale.refuse = lambda call: "changed"
        clear_plans()

    scale.refuse = refuse
    scale.call(X, X)
    scale.call(X, X)
    assert scale.served == ["fast", "torch"]


def test_a_failed_call_leaves_no_plan(scale):
    @register_impl("scale", "torch")
    def broken(x, weight, *, factor=1.0):
        raise ValueError("broken")

    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            scale.call(X, X, backend="torch")
    assert _registry.find_operator("scale").table.plans == {}


def test_plans_keep_no_tensor_alive(scale):
    import gc
    import weakref

    x, w, y = torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3)
    gone = [weakref.ref(one) for one in (x, w, y)]
    for _ in range(3):
        scale.call(x, w)
        scale.call(x, w, out=y)
    del x, w, y
    gc.collect()
    assert [one() for one in gone] == [None] * 3


def test_concurrent_calls_and_changes_always_compute_the_call_they_were_given(scale):
    errors: list[BaseException] = []
    stop = threading.Event()

    def work(number: int) -> None:
        try:
            tensors = [(torch.full((rows, 3), float(number)), torch.ones(rows, 3)) for rows in range(1, 6)]
            for _ in range(60):
                for x, w in tensors:
                    y = torch.empty_like(x)
                    torch.testing.assert_close(scale.call(x, w, factor=float(number)), x * number)
                    torch.testing.assert_close(scale.call(x, w, factor=2.0, out=y), x * 2)
        except BaseException as error:  # noqa: BLE001  # handed to the test below
            errors.append(error)

    def change() -> None:
        while not stop.wait(0.001):
            clear_plans()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    changer = threading.Thread(target=change)
    for thread in (*threads, changer):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    changer.join()
    assert errors == []


def test_threads_that_need_one_binding_bind_it_once():
    @kw.dispatch("slow_to_bind")
    def slow_to_bind(x: torch.Tensor) -> torch.Tensor: ...

    bound = []

    def bind(configuration):
        bound.append(configuration)
        threading.Event().wait(0.05)
        return lambda x, out=None: x

    register_impl("slow_to_bind", "cpu", bind=bind)
    threads = [threading.Thread(target=slow_to_bind, args=(torch.ones(n + 1),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bound) == 1


@pytest.mark.serial
def test_a_hit_stays_cheap():
    # A coarse bound for a loaded machine; benchmarks/bench_dispatch.py measures it.
    import statistics
    import time

    @kw.dispatch("nothing")
    def nothing(x: torch.Tensor, w: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor: ...

    class Bound:
        def specialize(self, call):
            return lambda x, w, eps, out: x

    register_impl("nothing", "cpu", bind=lambda _: Bound())
    w = torch.ones(3)
    for _ in range(3):
        nothing(X, w)
    batches = []
    for _ in range(50):
        start = time.perf_counter_ns()
        for _ in range(200):
            nothing(X, w)
        batches.append((time.perf_counter_ns() - start) / 200)
    assert statistics.median(batches) < 2_000
