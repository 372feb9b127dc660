"""What is held against a candidate for how it behaves while times are taken; on numbers that were made up."""

from __future__ import annotations

import pytest

from kernelwright.referee.contract._conduct import accusation
from kernelwright.referee.contract._conduct import Conduct
from kernelwright.referee.contract._conduct import wait_quiet
from kernelwright.referee.contract._conduct import Window


def conduct(*, used_ms: float = 0.02, count: int = 12, restless: int = 0, own: float = 0.99) -> Conduct:
    """A performer that used so much of each 15 ms in which it waited, and told `own` of each 10 ms block."""
    return Conduct(
        windows=[Window(0.015, used_ms * 1e-3)] * count,
        tails=[Window(0.006, 0.004)] * count,
        restless=restless,
        seen=[(0.010, own * 0.010)] * count,
        shares=[1.8] * count,
    )


def accused(candidate: Conduct, baseline: Conduct | None = None) -> str | None:
    return accusation(candidate, baseline or conduct(), grace_s=0.3)


def test_who_waits_is_accused_of_nothing() -> None:
    assert accused(conduct()) is None


def test_burning_the_processor_while_the_baseline_runs_is_told_in_numbers() -> None:
    said = str(accused(conduct(used_ms=14.2)))
    assert said == (
        "its processes used 14.2 ms of processor time (the baseline's 0.02 ms) in each 15 ms, on average, in "
        "which only the baseline had work: it slows the baseline down"
    )


def test_working_on_inputs_while_they_are_written_is_told_as_well() -> None:
    seen = conduct()
    seen.ahead = [Window(0.004, 0.003)] * 12
    said = str(accused(seen))
    assert said.endswith("in which its next inputs were written: work was running ahead of the clock")
    baseline = conduct()
    baseline.ahead = [Window(0.004, 0.003)] * 12
    assert accused(seen, baseline) is None


def test_so_is_a_seventh_of_a_core() -> None:
    assert "2.2 ms of processor time" in str(accused(conduct(used_ms=2.2)))


def test_what_the_baseline_does_as_well_is_no_cheat() -> None:
    assert accused(conduct(used_ms=3.0), conduct(used_ms=2.0)) is None


def test_so_is_what_a_busy_machine_lets_it_do_in_some_of_the_time() -> None:
    seen = conduct()
    seen.windows[:5] = [Window(0.015, 0.006)] * 5
    assert "2.51 ms of processor time" in str(accused(seen))


def test_now_and_then_is_not_enough() -> None:
    seen = conduct()
    seen.windows[:3] = [Window(0.015, 0.012)] * 3
    assert accused(seen) is None
    seen.windows[:6] = [Window(0.015, 0.0024)] * 6
    assert accused(seen) is None


def test_what_calls_leave_to_be_read_or_logged_is_no_cheat() -> None:
    seen = conduct()
    seen.ahead = [Window(0.0073, 0.00095)] * 12
    assert accused(seen) is None
    seen = conduct(used_ms=10.0, count=4)
    assert accused(seen) is None


def test_work_that_goes_on_after_every_block_was_left_running() -> None:
    said = str(accused(conduct(restless=12)))
    assert "still working 0.3 s after a block of calls had returned, in 12 of 12 blocks" in said
    assert accused(conduct(restless=3)) is None
    assert accused(conduct(restless=12), conduct(restless=12)) is None


def test_a_clock_that_tells_less_than_passed_is_found_where_the_baselines_does_not() -> None:
    slow = conduct(own=0.4)
    assert accused(slow) == "its clock saw 40% of the time that passed here while it ran alone"
    assert accused(slow, conduct(own=0.4)) is None


def test_a_machine_that_delays_messages_now_and_then_accuses_nobody() -> None:
    seen = conduct()
    seen.seen[:8] = [(0.030, 0.010)] * 8
    assert accused(seen) is None


def test_messages_that_take_long_on_a_busy_machine_accuse_nobody() -> None:
    seen, baseline = conduct(), conduct()
    seen.seen = [(0.030, 0.003)] * 12
    baseline.seen = [(0.035, 0.010)] * 12
    assert accused(seen, baseline) is None
    baseline.seen = [(0.0105, 0.010)] * 12
    assert "its clock saw 10%" in str(accused(seen, baseline))


def test_a_clock_that_tells_more_than_passed_gains_nothing() -> None:
    assert accused(conduct(own=3.0)) is None


class Work:
    """Uses 0.9 ms of processor time between any two looks, `looks` times; wants it `wanted` times in all."""

    def __init__(self, looks: int, wanted: int = 0) -> None:
        self.left = looks
        self.used = 5_000_000
        self.wanted = max(looks, wanted)

    def cpu_ns(self) -> int:
        self.left -= 1
        self.used += 900_000 if self.left >= 0 else 0
        return self.used

    def runnable(self) -> int:
        self.wanted -= 1
        return int(self.wanted >= 0)


def test_waiting_ends_with_the_work() -> None:
    window, quiet = wait_quiet(Work(6), 5.0)
    assert quiet
    assert window.cpu_s == pytest.approx(5 * 0.0009)
    assert window.wall_s < 1.0


def test_a_thread_that_is_kept_off_the_processor_is_not_at_rest() -> None:
    work = Work(0, wanted=9)
    _, quiet = wait_quiet(work, 5.0)
    assert quiet
    assert work.wanted <= -2


def test_waiting_ends_with_the_grace() -> None:
    window, quiet = wait_quiet(Work(10**9), 0.02)
    assert not quiet
    assert 0.02 <= window.wall_s < 1.0


def test_it_is_plain_data_for_the_conditions() -> None:
    assert conduct(used_ms=3.0, restless=1).facts() == {
        "used_while_waiting_ms": 3.0,
        "waited_ms": 15.0,
        "used_ahead_ms": None,
        "used_after_block_ms": 4.0,
        "not_quiet": 1,
        "had_processors": 1.8,
        "own_clock": 0.99,
    }
    assert Conduct().facts()["own_clock"] is None
