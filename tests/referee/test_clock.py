"""The clock's interface, and that each clock there is fits it."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import pytest

from kernelwright.referee._clock import Clock
from kernelwright.referee._clock import CourseClock
from kernelwright.referee._clock import Round
from kernelwright.referee.contract._batch_clock import BatchClock


@dataclass
class Batch:
    wall_s: float
    busy_s: float
    calls: int = 7


@dataclass
class Lane:
    batches: list[Batch] = field(default_factory=list)


class Course:
    """Stands for a native course: times of 100 ns times the contestant's number plus one."""

    contestants = (type("Entrant", (), {"name": "old"}), type("Entrant", (), {"name": "new"}))

    def __init__(self) -> None:
        self.lanes = [Lane(), Lane()]

    def block(self, active: Any) -> np.ndarray:
        row = np.full(2, np.nan)
        for index in active:
            row[index] = 100.0 * (index + 1)
            self.lanes[index].batches.append(Batch(0.010, 0.009))
        return row

    def facts(self, index: int) -> dict[str, Any]:
        return {"caches": "flushed", "rounds": 1, "of": index}


class GpuClock:
    """How a GPU's clock would look: a device that counts what was asked of it, in order."""

    names = ("baseline", "candidate")

    def __init__(self, *, throttled: bool = False) -> None:
        self.did: list[str] = []
        self._throttled = throttled

    def round(self, active: Any) -> Round:
        ns = np.full((1, 2), np.nan)
        seen: dict[int | None, tuple[float, float]] = {}
        for index in active:
            self.did += ["flush L2", "synchronise", "events around the calls", "synchronise", "read clocks"]
            ns[0, index] = np.nan if self._throttled else 5000.0
            seen[index] = (5.2e-3, 5.0e-3)
        return Round(ns, seen, {"throttled": len(active)} if self._throttled else {})

    def facts(self) -> dict[str, Any]:
        return {"clock": "events", "caches": "L2 written over", "calls_a_block": [1000, 1000], "rounds": 1}


def test_clocks_have_the_interface() -> None:
    assert isinstance(CourseClock(Course()), Clock)  # type: ignore[arg-type]
    assert isinstance(GpuClock(), Clock)
    assert {"round", "facts"} <= set(dir(BatchClock))


def test_a_round_has_a_row_for_each_block_and_a_column_for_each_contestant() -> None:
    clock = CourseClock(Course())  # type: ignore[arg-type]
    found = clock.round([1])
    assert found.ns.shape == (1, 2)
    assert np.isnan(found.ns[0, 0])
    assert found.ns[0, 1] == 200.0
    assert found.seen == {1: (0.010, 0.009)}


def test_facts_say_whose_clock_it_was_and_what_the_mode_means() -> None:
    course = Course()
    clock = CourseClock(course)  # type: ignore[arg-type]
    clock.round([0, 1])
    facts = clock.facts()
    assert "judge's clock" in facts["clock"]
    assert (facts["caches"], facts["calls_a_block"], facts["rounds"]) == ("flushed", [7, 7], 1)
    assert {"clock", "caches", "calls_a_block", "rounds"} <= set(GpuClock().facts())


@pytest.mark.parametrize("throttled", [False, True])
def test_a_spoilt_sample_is_missing_and_counted(throttled: bool) -> None:
    found = GpuClock(throttled=throttled).round([0, 1])
    assert bool(np.isnan(found.ns).all()) is throttled
    assert found.discarded == ({"throttled": 2} if throttled else {})
