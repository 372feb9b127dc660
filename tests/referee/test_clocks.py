"""The child's clock against ours: who is said to cheat, and what a busy machine may do without it."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.referee import NativeEntrant
from kernelwright.referee import Status
from kernelwright.referee._clocks import borne_out
from kernelwright.referee._clocks import clock_verdicts
from kernelwright.referee._clocks import disagree
from kernelwright.referee._clocks import judge_clocks
from kernelwright.referee._clocks import overhead
from kernelwright.referee._clocks import Seen
from kernelwright.referee._clocks import SOLO_BATCHES
from kernelwright.referee._clocks import suspicious

TRUE: Seen = (0.0102, 0.0100)
DELAYED: Seen = (0.0150, 0.0100)
SHORT: Seen = (0.0102, 0.0051)
LONG: Seen = (0.0102, 0.0200)
#: Three hundredths of the time are kept back, beside the usual delay.
SLIGHT: Seen = (0.0102, 0.0093)


class FakeCourse:
    """Batches that take as long as `seen` says of who runs; in company they are as `together` says."""

    def __init__(self, seen: dict[str, Any], *, together: dict[str, list[Seen]]) -> None:
        self.contestants = [NativeEntrant(name, Path(f"{name}.so"), "kw") for name in seen]
        self.lanes = [
            SimpleNamespace(
                batches=[SimpleNamespace(wall_s=wall, busy_s=busy) for wall, busy in together[name]]
            )
            for name in seen
        ]
        self.turns: list[str] = []
        self._seen = seen

    def solo(self, index: int) -> Any:
        name = self.contestants[index].name
        self.turns.append(name)
        found = self._seen[name]
        wall, busy = found() if callable(found) else found
        return SimpleNamespace(wall_s=wall, busy_s=busy)


def status(baseline: list[Seen], entrant: list[Seen]) -> Status | None:
    found = judge_clocks(baseline, entrant)
    return None if found is None else found.status


@pytest.mark.parametrize(
    ("wall_s", "busy_s", "overhead_s", "apart"),
    [
        (0.0102, 0.0100, 0.0, False),
        (0.0102, 0.0095, 0.0002, False),
        (0.0102, 0.0090, 0.0002, True),
        (0.0102, 0.0120, 0.0002, True),
        (0.0150, 0.0100, 0.0050, False),
    ],
)
def test_clocks_may_differ_by_what_messages_cost(
    wall_s: float, busy_s: float, overhead_s: float, apart: bool
) -> None:
    assert disagree(wall_s, busy_s, overhead_s) is apart


def test_messages_cost_what_the_baseline_s_batches_show() -> None:
    assert overhead([TRUE, TRUE, DELAYED]) == pytest.approx(0.0002)


@pytest.mark.parametrize(
    ("baseline", "entrant", "expected"),
    [
        ([TRUE] * 40, [TRUE] * 40, None),
        ([TRUE] * 40, [SHORT] * 40, Status.CHEATED),
        ([TRUE] * 40, [SLIGHT] * 40, Status.CHEATED),
        ([TRUE] * 39 + [DELAYED], [SHORT] * 40, Status.CHEATED),
        # In 40% of the batches, but always in its favour.
        ([TRUE] * 40, [SHORT] * 16 + [TRUE] * 24, Status.CHEATED),
        # In fewer: threads that spin on may hold up our message, and none of the baseline does.
        ([TRUE] * 40, [SHORT] * 12 + [TRUE] * 28, Status.NOISY),
        # Too seldom, or not only in its favour, or not only there: that is not proven.
        ([TRUE] * 40, [SHORT] * 5 + [TRUE] * 35, None),
        ([TRUE] * 40, [SHORT] * 38 + [LONG] * 2, Status.NOISY),
        ([TRUE] * 40, [LONG] * 40, Status.NOISY),
        ([TRUE] * 30 + [DELAYED] * 10, [SHORT] * 40, Status.CHEATED),
        ([TRUE] * 30 + [DELAYED] * 10, [DELAYED] * 12 + [TRUE] * 28, None),
        ([TRUE] * 4 + [LONG] * 36, [TRUE] * 40, None),
        # So busy a machine that half of all batches are late; but not one of the entrant's is borne out.
        ([TRUE, DELAYED] * 20, [SHORT, (0.0150, 0.0050)] * 20, Status.CHEATED),
        ([TRUE, DELAYED] * 20, [SHORT, TRUE] * 20, None),
        ([DELAYED] * 40, [(0.0400, 0.0100)] * 40, Status.CHEATED),
        ([DELAYED, (0.0300, 0.0100)] * 20, [DELAYED, (0.0300, 0.0100)] * 20, Status.NOISY),
    ],
)
def test_cheated_takes_differences_in_the_entrant_s_favour_that_the_baseline_does_not_show(
    baseline: list[Seen], entrant: list[Seen], expected: Status | None
) -> None:
    assert status(baseline, entrant) is expected


@pytest.mark.parametrize("load", [0.02, 0.1, 0.2, 0.5, 0.9])
def test_an_honest_kernel_on_a_busy_machine_is_not_called_a_cheat(load: float) -> None:
    draw = random.Random(7)

    def batches() -> list[Seen]:
        return [DELAYED if draw.random() < load else TRUE for _ in range(SOLO_BATCHES)]

    found = [status(batches(), batches()) for _ in range(500)]
    assert found.count(Status.CHEATED) <= 2


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_a_clock_that_lies_now_and_then_is_found_out(share: float) -> None:
    draw = random.Random(8)

    def batches(share: float, other: Seen) -> list[Seen]:
        return [other if draw.random() < share else TRUE for _ in range(SOLO_BATCHES)]

    found = [status(batches(0.0, TRUE), batches(share, SHORT)) for _ in range(200)]
    assert found.count(None) <= 40, "it is not compared"
    if share >= 0.5:
        assert found.count(Status.CHEATED) >= 160


def test_who_is_suspected_is_timed_alone_in_turn_with_the_baseline() -> None:
    course: Any = FakeCourse(
        {"baseline": TRUE, "honest": TRUE, "liar": SHORT},
        together={"baseline": [TRUE] * 10, "honest": [TRUE] * 10, "liar": [SHORT] * 3 + [TRUE] * 7},
    )
    verdicts = clock_verdicts(course)
    assert {name: str(found.status) for name, found in verdicts.items()} == {"liar": "cheated"}
    assert "saw 50% of the time that passed in 40 of 40" in verdicts["liar"].reason
    assert course.turns == ["baseline", "liar"] * SOLO_BATCHES


def test_on_a_busy_machine_times_that_our_clock_never_bears_out_are_looked_into() -> None:
    late = [(0.0150, 0.0100), (0.0400, 0.0100), (0.0102, 0.0100), (0.0900, 0.0100)] * 3
    assert not suspicious(late, late)
    assert suspicious(late, [(wall, busy / 2) for wall, busy in late])


def test_a_burst_of_other_work_meets_all_and_blames_nobody() -> None:
    calls = iter(range(10000))

    def bursts() -> Seen:
        return DELAYED if next(calls) // 12 % 2 == 0 else TRUE

    rounds = [DELAYED] * 5 + [TRUE] * 5
    course: Any = FakeCourse(
        {"baseline": bursts, "one": bursts}, together={"baseline": rounds, "one": rounds}
    )
    assert not [found for found in clock_verdicts(course).values() if found.status is Status.CHEATED]


def test_clocks_that_agree_in_the_race_are_not_looked_into() -> None:
    course: Any = FakeCourse(
        {"baseline": TRUE, "entrant": SHORT}, together={"baseline": [TRUE] * 9, "entrant": [TRUE] * 9}
    )
    assert clock_verdicts(course) == {}
    assert course.turns == []


def test_what_we_were_kept_waiting_explains_a_difference_and_makes_none() -> None:
    assert borne_out(0.013, 0.010, late_s=0.003) == pytest.approx(0.010)
    assert borne_out(0.013, 0.010, late_s=0.001) == pytest.approx(0.012)
    assert borne_out(0.013, 0.010, late_s=0.0) == 0.013
    # We waited while the child worked: nothing is left to explain, and it did not tell of more than passed.
    assert borne_out(0.0101, 0.010, late_s=0.005) == pytest.approx(0.010)
    assert borne_out(0.009, 0.010, late_s=0.005) == 0.009


def test_a_lie_is_not_excused_by_what_threads_do_after_it() -> None:
    """Half of the time is kept back; three milliseconds after the answer we hear of it."""
    lied = [(borne_out(0.0102 + 0.003, 0.0051, 0.003), 0.0051)] * SOLO_BATCHES
    verdict = judge_clocks([TRUE] * SOLO_BATCHES, lied)
    assert verdict is not None
    assert verdict.status is Status.CHEATED
