"""Races that choose among many: fewer looks, kept children, and no less isolation."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.ops import RmsNormSpec
from kernelwright.referee import _layout as layout
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import RaceResult
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee._child import Patience
from kernelwright.referee._course import Track
from kernelwright.referee._course import write_plan
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._native_result import Rules
from kernelwright.referee._race import Race
from kernelwright.referee._race_data import RaceData

pytestmark = pytest.mark.serial

Planted = Callable[[str], NativeEntrant]


@pytest.fixture
def screened(
    judge: NativeJudge, planted: Planted, spec: RmsNormSpec, describe: Any
) -> Callable[..., RaceResult]:
    def run(*names: str, sizes: tuple[int, int] = (4, 2048)) -> RaceResult:
        for _ in range(3):
            result = judge.race(
                spec,
                spec.workload(*sizes),
                planted("honest_scalar"),
                [planted(name) for name in names],
                describe=describe,
                budget_s=0.3,
                screen=True,
            )
            noisy = [one.reason for one in result.verdicts.values() if one.status is Status.NOISY]
            if not noisy:
                return result
        pytest.skip(f"the machine cannot time anything now: {noisy[0]}")

    return run


@pytest.mark.parametrize("name", ["all_zeros", "changes_input", "writes_outside", "skips_when_timed"])
def test_who_is_wrong_on_the_clock_does_not_pass_a_screening(
    screened: Callable[..., RaceResult], name: str
) -> None:
    result = screened(name, "honest_half_speed")
    assert result.verdicts[name].status in (Status.WRONG, Status.CHEATED)
    assert set(result.contests) == {"honest_half_speed"}


class FakeCourse:
    """Two entrants: one as fast as the baseline, one half as fast."""

    def __init__(self) -> None:
        self.contestants = ("baseline", "even", "slow")
        self.track = Track()
        self.blocks: list[tuple[list[int], list[int]]] = []

    def block(self, active: Sequence[int], *, judged: Sequence[int] = (), meanwhile: Any = None) -> None:
        self.blocks.append((list(active), list(judged)))
        times = np.array([100.0, 100.0, 200.0])
        self.track.rows.append(np.where(np.isin(range(3), active), times, np.nan))


def test_who_is_far_behind_is_not_measured_on_and_everyone_is_judged_at_the_end() -> None:
    pool: Any = SimpleNamespace(get_ready=lambda: None, settle=lambda: None)
    rules = Rules(Mode.COLD, Regime.PREALLOCATED, 0.5, 0, 0.01, 1, Patience(), screen=True)
    for _ in range(20):
        course: Any = FakeCourse()
        Race(pool, SimpleNamespace(), rules)._screen(course, pool)  # type: ignore[arg-type]
        assert [active for active, _ in course.blocks[:4]] == [[0, 1, 2]] * 4
        assert all(active == [0, 1] for active, _ in course.blocks[4:-1])
        assert course.blocks[-1] == ([0, 1, 2], [0, 1, 2])
        assert np.isfinite(course.track.column(2)).sum() == 5, "enough for an interval"
        earlier = [judged for _, judged in course.blocks[:-1] if judged]
        assert earlier, "nobody can know that only the last block is looked at"
        assert all(0 not in judged for judged in earlier)


def test_children_of_several_entrants_serve_their_next_race_and_no_one_elses(
    judge: NativeJudge, screened: Callable[..., RaceResult], planted: Planted
) -> None:
    screened("honest_half_speed", "honest_openmp")
    kept = dict(judge.pool._entrants)
    assert {entrant.name for entrant in kept} == {"honest_half_speed", "honest_openmp"}
    processes = [child.process for child in kept.values()]
    screened("honest_half_speed", "honest_openmp", sizes=(2, 1024))
    assert [child.process for child in judge.pool._entrants.values()] == processes
    screened("honest_lazy")
    judge.pool.settle()
    assert all(process is not None and process.outcome is not None for process in processes)


def test_a_judge_keeps_a_baseline_for_each_workload(
    judge: NativeJudge, screened: Callable[..., RaceResult]
) -> None:
    judge.forget()
    sizes = [(1, 512), (2, 512)]
    for one in (*sizes, *sizes):
        screened("honest_half_speed", sizes=one)
    assert len(judge.pool._baselines) == 2
    judge.forget()
    assert not judge.pool._baselines
    assert judge.pool._spare is None, "what it was filled for is gone"


@pytest.mark.parametrize("sets", [2, 5, 4000])
def test_sets_that_were_filled_before_the_kernel_came_are_those_of_the_seeds(
    judge: NativeJudge, planted: Planted, spec: RmsNormSpec, describe: Any, sets: int
) -> None:
    data: RaceData = judge.race_data(spec, describe, spec.workload(3, 500, dtype=torch.bfloat16))
    plan_at = write_plan(
        judge.store,
        data.call,
        [group.sources for group in data.groups],
        data=data,
        mode=Mode.COLD,
        regime=Regime.PREALLOCATED,
        threads=1,
        seed=5,
    )
    child = judge.pool.child()
    child.get_ready(plan_at, sets)
    lane = Lane(planted("honest_scalar"), child, judge.patience, data.call.buffers)
    try:
        lane.open(plan_at)
        lane.start_anew()
        lane.prepare(9)
        mirror = lane.mirror
        assert mirror is not None
        turns = sorted({0, 1, lane.sets // 2, lane.sets - 1})
        shown = lane.look([(mirror.set_at(turn), layout.ALL) for turn in turns])
        for turn, seen in zip(turns, shown, strict=True):
            for index in range(2):
                found = seen[index]
                assert found is not None
                assert found.fenced
                assert torch.equal(found.data, mirror.contents(index, turn, turn))
    finally:
        child.stop()
