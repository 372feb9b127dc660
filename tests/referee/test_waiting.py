"""A deadline is for the one who is waited for: while nobody runs, its time stands still."""

from __future__ import annotations

from kernelwright.referee._waiting import Waiting


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_passes_by_the_clock() -> None:
    clock = Clock()
    waiting = Waiting(clock)
    for looked in (0.5, 1.0, 1.5):
        clock.now += 0.5
        assert waiting.look(0.5) == waiting.passed_s == looked


def test_a_machine_that_is_busy_may_be_a_little_late() -> None:
    clock = Clock()
    waiting = Waiting(clock)
    clock.now += 1.25
    assert waiting.look(0.5) == 1.25


def test_time_in_which_we_were_stopped_is_nobody_s() -> None:
    clock = Clock()
    waiting = Waiting(clock)
    clock.now += 3600.0
    assert waiting.look(0.5) == 1.5
    clock.now += 0.5
    assert waiting.look(0.5) == 2.0
