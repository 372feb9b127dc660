"""A deadline is for the one who is waited for: while nobody runs, its time stands still."""

from __future__ import annotations

import os
import signal
import time

from kernelwright.referee._waiting import kept_waiting_s
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


def test_what_others_kept_us_waiting_is_known() -> None:
    """On one processor with somebody who never rests, we wait for half of the time."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    rival = os.fork()
    if rival == 0:
        while True:
            pass
    try:
        began, waited = time.perf_counter(), kept_waiting_s()
        while time.perf_counter() - began < 0.5:
            pass
        assert 0.1 < kept_waiting_s() - waited < time.perf_counter() - began
    finally:
        os.kill(rival, signal.SIGKILL)
        os.waitpid(rival, 0)
        os.sched_setaffinity(0, own)


def test_who_sleeps_is_kept_waiting_by_nobody() -> None:
    waited = kept_waiting_s()
    time.sleep(0.2)
    assert kept_waiting_s() - waited < 0.1
