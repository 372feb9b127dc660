"""Batches in a child, and what the parent knows of their contents without asking it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.ops import RmsNormSpec
from kernelwright.referee import _layout as layout
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Regime
from kernelwright.referee._course import write_plan
from kernelwright.referee._native_lane import Batch
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._native_mirror import Mirror
from kernelwright.referee._race_data import RaceData

pytestmark = pytest.mark.serial

Planted = Callable[[str], NativeEntrant]
MODES = list(itertools.product(Mode, Regime))
HERE = min(os.sched_getaffinity(0))


@pytest.fixture
def data(judge: NativeJudge, spec: RmsNormSpec, describe: Any) -> RaceData:
    return judge.race_data(spec, describe, spec.workload(3, 500, dtype=torch.bfloat16))


@pytest.fixture
def opened(judge: NativeJudge, planted: Planted, data: RaceData) -> Iterator[Callable[..., Lane]]:
    child = judge.pool.child()

    def lane(mode: Mode, regime: Regime, name: str = "honest_scalar") -> Lane:
        plan_at = write_plan(
            judge.store,
            data.call,
            [group.sources for group in data.groups],
            data=data,
            mode=mode,
            regime=regime,
            threads=1,
            contestants=2,
            seed=11,
        )
        lane = Lane(planted(name), child, judge.patience, data.call.buffers)
        lane.open(plan_at)
        lane.start_anew()
        return lane

    yield lane
    child.stop()


def known(lane: Lane) -> Mirror:
    assert lane.mirror is not None
    return lane.mirror


@pytest.mark.parametrize(("mode", "regime"), MODES)
def test_contents_are_known_from_the_seeds_alone(
    opened: Callable[..., Lane], data: RaceData, mode: Mode, regime: Regime
) -> None:
    lane = opened(mode, regime)
    mirror = known(lane)
    for seed in (5, 6, 7):
        lane.prepare(seed)
        lane.run(keep_last=True, padding=640, processor=HERE)
        calls = mirror.kept_calls() if regime is Regime.ALLOCATING else [mirror.calls - 1, mirror.calls - 2]
        for call in calls:
            turn = mirror.turn_of(call)
            number = call if regime is Regime.ALLOCATING else mirror.set_at(turn)
            (seen,) = lane.look([(number, layout.ALL)])
            for index, name in enumerate(("x", "weight")):
                found = seen[index]
                assert found is not None
                assert found.fenced
                expected = mirror.contents(index, turn, mirror.last_call(turn))
                assert torch.equal(found.data, expected), (name, call)
            inputs = {name: mirror.contents(index, turn, call) for index, name in enumerate(("x", "weight"))}
            assert seen[2] is not None
            output = seen[2].data.view(torch.bfloat16)
            assert data.fault(mirror.group_at(turn), inputs, output) is None


def test_no_two_calls_of_a_warm_batch_have_the_same_contents(opened: Callable[..., Lane]) -> None:
    lane = opened(Mode.WARM, Regime.PREALLOCATED)
    mirror = known(lane)
    met = set()
    for seed in (1, 2):
        lane.prepare(seed)
        for call in range(60):
            turn = mirror.turn_of(call)
            met.add(tuple(mirror.contents(index, turn, call).numpy().tobytes() for index in (0, 1)))
    assert len(met) >= 118, "an element may happen to be replaced by its equal"


def test_no_set_of_a_cold_batch_has_the_contents_of_an_earlier_batch(opened: Callable[..., Lane]) -> None:
    lane = opened(Mode.COLD, Regime.PREALLOCATED)
    mirror = known(lane)
    met = set()
    for seed in (1, 2, 3):
        lane.prepare(seed)
        turns = {mirror.set_at(turn): turn for turn in range(mirror.sets)}
        for number in range(5):
            turn = turns[number]
            met.add((number, *(mirror.contents(index, turn, turn).numpy().tobytes() for index in (0, 1))))
    assert len(met) == 15


def test_all_outputs_are_poisoned_before_a_cold_batch(opened: Callable[..., Lane]) -> None:
    lane = opened(Mode.COLD, Regime.PREALLOCATED)
    lane.prepare(1)
    lane.run(keep_last=False, padding=640, processor=HERE)
    lane.prepare(2)
    for (seen,) in ([one[2]] for one in lane.look([(number, layout.OUTPUTS) for number in range(8)])):
        assert seen is not None
        assert bool((seen.data == layout.POISON[0]).all())


def test_a_batch_takes_ten_milliseconds_and_both_clocks_tell_the_same(opened: Callable[..., Lane]) -> None:
    lane = opened(Mode.WARM, Regime.PREALLOCATED)
    batches = []
    for seed in range(5):
        lane.prepare(seed)
        batches.append(lane.run(keep_last=False, padding=640, processor=HERE))
    assert max(one.busy_s for one in batches) > 0.006
    assert min(abs(one.wall_s - one.busy_s) / one.wall_s for one in batches) < 0.1


def test_what_interrupts_a_few_windows_does_not_move_the_time_of_a_call() -> None:
    windows = np.full(40, 20_000.0)
    assert Batch(1.0, windows, 10).call_ns == 2000.0
    windows[[3, 17]] = 5e6
    assert Batch(1.0, windows, 10).call_ns == 2000.0
    assert Batch(1.0, windows * 1.03, 10).call_ns == pytest.approx(2060.0)


@pytest.mark.parametrize("shape", [(3, 500), (700, 4096)])
def test_replaced_elements_of_large_inputs_are_judged_too(
    judge: NativeJudge, spec: RmsNormSpec, describe: Any, shape: tuple[int, int]
) -> None:
    data = judge.race_data(spec, describe, spec.workload(*shape, dtype=torch.float32))
    group = data.groups[0]
    x = group.arguments["x"].clone()
    right = spec.reference(**group.arguments)
    x[1, 7] += 3.0
    inputs = {
        "x": x.reshape(-1).view(torch.uint8),
        "weight": group.arguments["weight"].reshape(-1).view(torch.uint8),
    }
    new = spec.reference(**{**group.arguments, "x": x})
    assert data.fault(0, inputs, new) is None
    assert data.fault(0, inputs, right) is not None, "the result for the contents before"
    assert data.varied is (shape == (3, 500))
