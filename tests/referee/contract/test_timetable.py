"""Which calls of a check there is time for, told by a clock that only the test moves."""

from __future__ import annotations

import pytest

from kernelwright.referee import Status
from kernelwright.referee.contract._cases import CaseCall
from kernelwright.referee.contract._cases import Kind
from kernelwright.referee.contract._timetable import Timetable


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def case(rows: float = 1.0, *, must: bool = False) -> CaseCall:
    return CaseCall("a case", Kind.PLAIN, "a workload", {}, rows=rows, must=must)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(times: Timetable, clock: Clock, one: CaseCall, seconds: float) -> None:
    with times.case(one):
        clock.now += seconds


def test_calls_are_begun_in_three_quarters_of_the_time(clock: Clock) -> None:
    times = Timetable(8.0, clock)
    assert times.left() == 6.0
    clock.now += 6.0
    assert not times.over()
    clock.now += 0.1
    assert times.over()
    assert times.left() == 0.0


def test_a_case_takes_as_long_as_those_of_its_workload_and_by_its_rows(clock: Clock) -> None:
    times = Timetable(100.0, clock)
    assert times.estimate(case()) == 0.0
    made(times, clock, case(rows=4.0), 8.0)
    assert times.estimate(case()) == pytest.approx(2.0)
    assert times.estimate(case(rows=3.0)) == pytest.approx(6.0)
    assert times.estimate(case(rows=0.0)) == pytest.approx(0.1)
    # One that was quick for once does not make the next one so.
    made(times, clock, case(), 0.0)
    assert times.estimate(case()) == pytest.approx(1.4)


def test_a_case_that_would_end_too_late_is_left_out_but_for_the_first_few(clock: Clock) -> None:
    times = Timetable(8.0, clock)
    made(times, clock, case(), 3.5)
    assert [times.allows(case(), index) for index in (3, 4)] == [True, False]
    assert times.allows(case(rows=0.5), 4)


def test_a_case_that_a_verdict_needs_is_waited_for_longer(clock: Clock) -> None:
    times = Timetable(8.0, clock)
    made(times, clock, case(), 30.0)
    assert times.allows(case(must=True), 9)
    assert not times.allows(case(), 9)
    clock.now += 30.0
    assert not times.allows(case(must=True), 9)


def test_ahead_of_its_turn_is_made_what_will_surely_be_judged(clock: Clock) -> None:
    times = Timetable(8.0, clock)
    made(times, clock, case(), 2.5)
    assert times.allows(case(), 9)
    assert not times.allows_ahead(case())
    assert times.allows_ahead(case(rows=0.5))
    assert times.allows_more("a workload", 1)
    assert not times.allows_more("a workload", 2)
    assert times.allows_more("another workload", 1000)


def test_who_took_the_time_is_blamed_where_calls_are_missing(clock: Clock) -> None:
    times = Timetable(8.0, clock)
    with times.candidate():
        clock.now += 3.0
    clock.now += 2.0
    fault = times.too_slow(7, 2)
    assert fault is not None
    assert fault.status is Status.HUNG
    assert "its 7 calls took 3 of 5 s, and 2 that a verdict needs were left" in fault.reason


def test_a_candidate_whose_calls_were_short_is_not(clock: Clock) -> None:
    times = Timetable(8.0, clock)
    with times.candidate():
        clock.now += 1.0
    clock.now += 1.5
    assert times.too_slow(7, 2) is None


def test_a_call_that_fails_took_its_time_too(clock: Clock) -> None:
    times = Timetable(8.0, clock)

    def call() -> None:
        with times.candidate():
            clock.now += 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call()
    assert times.too_slow(1, 1) is not None
