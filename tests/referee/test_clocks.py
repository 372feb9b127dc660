"""The child's clock against ours: who is said to cheat, and what a busy machine may do without it."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.referee import NativeEntrant
from kernelwright.referee import Status
from kernelwright.referee._clocks import clock_verdicts
from kernelwright.referee._clocks import disagree
from kernelwright.referee._clocks import judge_clocks
from kernelwright.referee._clocks import Seen

TRUE: Seen = (0.0300, 0.0299)
DELAYED: Seen = (0.0450, 0.0299)
SHORT: Seen = (0.0300, 0.0150)
LONG: Seen = (0.0300, 0.0600)


class FakeCourse:
    """Rounds that take as long as `seen` says of who runs alone; together they are apart."""

    def __init__(self, seen: dict[str, Any], *, together: Seen = DELAYED) -> None:
        self.contestants = [NativeEntrant(name, Path(f"{name}.so"), "kw") for name in seen]
        self.track = SimpleNamespace(rows=[None] * 10, agreement=[together] * 10)
        self.turns: list[str] = []
        self._seen = seen

    def round(self, active: list[int], *, traps: int) -> None:
        (index,) = active
        name = self.contestants[index].name
        self.turns.append(name)
        found = self._seen[name]
        self.track.rows.append(None)
        self.track.agreement.append(found() if callable(found) else found)


def status(baseline: list[Seen], entrant: list[Seen]) -> Status | None:
    found = judge_clocks(baseline, entrant)
    return None if found is None else found.status


@pytest.mark.parametrize(
    ("wall_s", "busy_s", "apart"),
    [
        (0.030, 0.0299, False),
        (0.030, 0.0280, False),
        (0.030, 0.020, True),
        (0.030, 0.040, True),
        (1.0, 0.97, False),
    ],
)
def test_clocks_may_differ_by_what_waking_up_costs(wall_s: float, busy_s: float, apart: bool) -> None:
    assert disagree(wall_s, busy_s) is apart


@pytest.mark.parametrize(
    ("baseline", "entrant", "expected"),
    [
        ([TRUE] * 6, [TRUE] * 6, None),
        ([TRUE] * 6, [SHORT] * 6, Status.CHEATED),
        ([TRUE] * 5 + [DELAYED], [SHORT] * 6, Status.CHEATED),
        # Not every time, or not in its favour, or not only there: that is not proven.
        ([TRUE] * 6, [SHORT] * 5 + [TRUE], Status.NOISY),
        ([TRUE] * 6, [DELAYED] * 3 + [TRUE] * 3, None),
        ([TRUE] * 6, [LONG] * 6, Status.NOISY),
        ([TRUE] * 4 + [DELAYED] * 2, [SHORT] * 6, Status.NOISY),
        ([DELAYED] * 6, [DELAYED] * 6, Status.NOISY),
        ([DELAYED] * 6, [TRUE] * 6, Status.NOISY),
        ([DELAYED] * 3 + [TRUE] * 3, [DELAYED] * 3 + [TRUE] * 3, None),
    ],
)
def test_cheated_takes_a_difference_that_repeats_in_the_entrant_s_favour_and_nowhere_else(
    baseline: list[Seen], entrant: list[Seen], expected: Status | None
) -> None:
    assert status(baseline, entrant) is expected


@pytest.mark.parametrize("load", [0.1, 0.5, 0.7, 0.9])
def test_an_honest_kernel_on_a_busy_machine_is_not_called_a_cheat(load: float) -> None:
    draw = random.Random(7)

    def rounds() -> list[Seen]:
        return [DELAYED if draw.random() < load else TRUE for _ in range(8)]

    found = [status(rounds(), rounds()) for _ in range(2000)]
    assert found.count(Status.CHEATED) <= 5


def test_contestants_are_looked_into_in_turn_and_their_rounds_leave_no_trace() -> None:
    course: Any = FakeCourse({"baseline": TRUE, "honest": TRUE, "liar": SHORT})
    verdicts = clock_verdicts(course)
    assert {name: str(found.status) for name, found in verdicts.items()} == {"liar": "cheated"}
    assert "50%" in verdicts["liar"].reason
    assert course.turns == ["baseline", "honest", "liar"] * 8
    assert (len(course.track.rows), len(course.track.agreement)) == (10, 10)


def test_a_burst_of_other_work_meets_all_and_blames_nobody() -> None:
    calls = iter(range(1000))

    def bursts() -> Seen:
        return DELAYED if next(calls) // 12 % 2 == 0 else TRUE

    course: Any = FakeCourse({"baseline": bursts, "one": bursts, "other": bursts})
    assert not [found for found in clock_verdicts(course).values() if found.status is Status.CHEATED]


def test_clocks_that_agree_in_the_race_are_not_looked_into() -> None:
    course: Any = FakeCourse({"baseline": TRUE, "entrant": SHORT}, together=TRUE)
    assert clock_verdicts(course) == {}
    assert course.turns == []
