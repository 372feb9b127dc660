"""The clock for callables in this process."""

from __future__ import annotations

import gc
import random
import time
from typing import Any

import pytest

from kernelwright.referee._python_clock import BLOCK_NS
from kernelwright.referee._python_clock import calibrate
from kernelwright.referee._python_clock import callable_contestant
from kernelwright.referee._python_clock import Contestant
from kernelwright.referee._python_clock import longer
from kernelwright.referee._python_clock import run_rounds


def contestant(function: Any, **options: Any) -> Contestant:
    counter = iter(range(10**9))
    return Contestant(
        "one",
        "function(x, scale=scale)",
        ("x",),
        {"function": function, "scale": 10},
        lambda calls: [(next(counter),) for _ in range(calls)],
        **options,
    )


class Recorder:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.prepared = 0

    def before(self) -> None:
        self.prepared += 1

    def after(self, result: Any) -> None:
        self.seen.append(result)


def test_a_call_is_an_expression_over_slots_and_namespace() -> None:
    recorder = Recorder()
    one = contestant(lambda x, scale: (x, scale), observer=recorder)
    one.run(3, 0)
    assert recorder.seen == [(2, 10)]
    assert recorder.prepared == 1


def test_lead_calls_come_first_and_are_not_counted() -> None:
    calls: list[int] = []

    def slow_at_first(x: int, scale: int) -> int:
        calls.append(x)
        if x < 2:
            time.sleep(0.02)
        return x

    per_call = contestant(slow_at_first).run(4, 2)
    assert calls == [0, 1, 2, 3, 4, 5]
    assert per_call < 5e6


def test_a_block_lasts_a_millisecond_or_is_one_call() -> None:
    short = callable_contestant("short", lambda: None)
    long = callable_contestant("long", lambda: time.sleep(0.003))
    calibrate([short, long])
    assert long.calls == 1
    assert short.calls > 1000
    assert short.calls * short.best_ns <= 2 * BLOCK_NS


def test_a_quarter_of_a_block_comes_ahead_of_it_and_nothing_ahead_of_a_long_call() -> None:
    quick, long = contestant(lambda x, scale: x, lead=2), contestant(lambda x, scale: x)
    quick.best_ns, long.best_ns = 10_000.0, 50_000_000.0
    assert quick.block_lead == quick.calls // 4
    assert long.block_lead == 0
    quick.best_ns = 900_000.0
    assert quick.block_lead == 2


def test_the_length_of_a_block_moves_a_little() -> None:
    lengths = {longer(80, random.Random(seed)) for seed in range(40)}
    assert lengths <= set(range(80, 91))
    assert len(lengths) > 4
    assert longer(1, random.Random(0)) == 1


def test_rounds_are_paired_and_interleaved() -> None:
    order: list[str] = []
    sides = [
        callable_contestant(name, lambda name=name: order.append(name) or time.sleep(0.002)) for name in "abc"
    ]
    rounds = run_rounds(sides, seconds=0.0, fewest=8, most=8, seed=3)
    assert {name: len(times) for name, times in rounds.times_ns.items()} == {"a": 8, "b": 8, "c": 8}
    # Each block has a lead call at first, so look at who comes, without repetitions in a row.
    assert len({tuple(order[start : start + 6]) for start in range(0, len(order), 6)}) > 1


def test_rounds_stop_at_their_bounds() -> None:
    sides = [callable_contestant("a", lambda: None)]
    assert len(run_rounds(sides, seconds=60.0, fewest=1, most=3, seed=0).times_ns["a"]) == 3
    assert len(run_rounds(sides, seconds=0.0, fewest=4, most=9, seed=0).times_ns["a"]) == 4


def test_no_garbage_is_collected_inside_a_block() -> None:
    seen: list[bool] = []
    run_rounds(
        [callable_contestant("a", lambda: seen.append(gc.isenabled()))], seconds=0.0, fewest=2, most=2, seed=0
    )
    assert not any(seen)
    assert gc.isenabled()


def test_what_a_contestant_raises_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        calibrate([callable_contestant("a", lambda: 1 // 0)])
    assert gc.isenabled()


@pytest.mark.serial
def test_ten_times_the_work_takes_ten_times_the_time() -> None:
    def work(count: int) -> int:
        return sum(range(count))

    sides = [callable_contestant("one", lambda: work(2000)), callable_contestant("ten", lambda: work(20000))]
    calibrate(sides)
    times = run_rounds(sides, seconds=0.5, fewest=40, most=200, seed=0).times_ns
    # The least of each: what else the machine does is not what is tested.
    assert 5 < min(times["ten"]) / min(times["one"]) < 20
