"""An evaluation has stages; one task at a time measures on a device, and nobody builds beside a CPU clock."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from kernelwright.errors import UsageError
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import Lanes
from kernelwright.search import MultiProcessWorker
from kernelwright.search import SerialWorker
from kernelwright.search import Skip
from kernelwright.search import Staged
from kernelwright.search import Task

sys.path.append(str(Path(__file__).parent))
import misbehaving

WORKERS = [MultiProcessWorker, IsoMultiProcessWorker, SerialWorker]


def run(worker, *configs):
    for number, config in enumerate(configs):
        worker.submit(Task(number, config))
    found = {}
    while worker.pending:
        for result in worker.results(60.0):
            found[result.number] = result
    return [found[number] for number in range(len(configs))]


def spans(note):
    """(stage, begin, end, cores) of every stage that ran, in order of their beginning."""
    lines = [line.split() for line in note.read_text().splitlines()]
    rows = [
        (stage, float(begin), float(end), {int(core) for core in cores.split(",")})
        for stage, begin, end, cores in lines
    ]
    return sorted(rows, key=lambda row: row[1])


def overlaps(rows):
    """The pairs of stages that ran at the same time."""
    pairs = set()
    for index, one in enumerate(rows):
        for other in rows[index + 1 :]:
            if other[1] < one[2]:
                pairs.add(tuple(sorted((one[0], other[0]))))
    return pairs


class TestStages:
    """Build, look, measure or skip."""

    @pytest.mark.parametrize("worker_type", WORKERS)
    def test_what_was_built_is_measured_and_described(self, worker_type):
        with worker_type(misbehaving.Builder()) as worker:
            [result] = run(worker, {"tile": 4})
        assert result.scores == (4.0,)
        assert result.metadata["features"] == {"bytes": 40, "identity": "code2"}
        assert set(result.metadata["stages"]) == {"build", "features", "measure"}
        assert result.seconds == pytest.approx(sum(result.metadata["stages"].values()))

    @pytest.mark.parametrize("worker_type", WORKERS)
    def test_features_may_say_that_it_is_not_worth_measuring(self, worker_type):
        with worker_type(misbehaving.Builder()) as worker:
            [result] = run(worker, {"tile": 200})
        assert (result.failure.kind, result.failure.reason) == ("skipped", "spills 4 KB a thread")
        assert "measure" not in result.metadata["stages"]

    @pytest.mark.parametrize("worker_type", WORKERS)
    def test_what_does_not_build_is_its_own_kind(self, worker_type):
        with worker_type(misbehaving.Builder()) as worker:
            [result] = run(worker, {"broken": True})
        assert (result.failure.kind, result.failure.reason) == (
            "build_failed",
            "RuntimeError: g++: error: no such option",
        )

    @pytest.mark.parametrize("worker_type", WORKERS)
    def test_the_same_code_is_not_measured_twice(self, worker_type, tmp_path):
        note = tmp_path / "note"
        with worker_type(misbehaving.Builder(note)) as worker:
            first, second, third = (run(worker, {"tile": tile})[0] for tile in (8, 9, 10))
        assert (first.scores, second.scores, third.scores) == ((8.0,), (8.0,), (10.0,))
        assert (first.metadata.get("reused"), second.metadata.get("reused")) == (None, True)
        assert [row[0] for row in spans(note)] == ["build", "measure", "build", "build", "measure"]

    def test_the_names_that_an_objective_may_use(self):
        assert isinstance(misbehaving.Builder(), Staged)
        assert Skip.skips_measurement


@pytest.mark.serial
class TestLanes:
    """Who runs beside whom."""

    def test_one_at_a_time_measures_on_a_gpu_and_builds_run_beside(self, tmp_path):
        note = tmp_path / "note"
        lanes = Lanes.gpus([3])
        with MultiProcessWorker(misbehaving.Builder(note), num_workers=3, lanes=lanes) as worker:
            results = run(worker, *({"tile": 4 * n, "wait": 0.1} for n in range(1, 7)))
        together = overlaps(spans(note))
        assert ("measure", "measure") not in together
        assert ("build", "measure") in together
        assert {result.metadata["device"] for result in results} == {"gpu3"}

    def test_nobody_builds_while_cores_are_measured(self, tmp_path):
        note = tmp_path / "note"
        core = min(os.sched_getaffinity(0))
        lanes = Lanes.cores([[core]])
        with MultiProcessWorker(misbehaving.Builder(note), num_workers=3, lanes=lanes) as worker:
            run(worker, *({"tile": 4 * n, "wait": 0.1} for n in range(1, 7)))
        rows = spans(note)
        assert overlaps(rows) <= {("build", "build")}
        assert all(cores == {core} for stage, _, _, cores in rows if stage == "measure")
        assert all(cores == os.sched_getaffinity(0) for stage, _, _, cores in rows if stage == "build")

    def test_a_plain_objective_measures_all_the_time(self):
        with IsoMultiProcessWorker(misbehaving.behave, num_workers=2, lanes=Lanes.gpus([0])) as worker:
            begun = time.monotonic()
            run(worker, *[{"do": "wait", "seconds": 0.2}] * 3)
            assert time.monotonic() - begun >= 0.6

    def test_each_process_sees_its_own_gpu(self):
        with MultiProcessWorker(misbehaving.see, num_workers=2, lanes=Lanes.gpus([5, 7])) as worker:
            results = run(worker, *[{"seconds": 0.2}] * 4)
        assert {(result.metadata["device"], result.scores[0]) for result in results} == {
            ("gpu5", 5.0),
            ("gpu7", 7.0),
        }

    def test_waiting_for_a_lane_does_not_count(self, tmp_path):
        lanes = Lanes.gpus([0])
        with MultiProcessWorker(misbehaving.behave, 3, task_timeout=2.0, lanes=lanes) as worker:
            results = run(worker, *[{"do": "wait", "seconds": 0.75}] * 3)
        assert [result.failure for result in results] == [None] * 3

    def test_a_lane_is_free_again_when_its_task_was_killed(self):
        with MultiProcessWorker(misbehaving.behave, 2, task_timeout=1.5, lanes=Lanes.gpus([0])) as worker:
            results = run(worker, {"do": "hang"}, {"do": "segfault"}, {"do": "return", "value": 1.0})
        assert [result.failure and result.failure.kind for result in results] == ["timeout", "crashed", None]

    def test_a_measurement_that_waits_lets_no_further_build_start(self):
        lanes = Lanes.cores([[0]])
        [device] = lanes.devices
        order = []

        def measure():
            with lanes.measuring(device):
                order.append("measure")

        def build():
            with lanes.building():
                order.append("build")

        with lanes.building():
            first = threading.Thread(target=measure)
            first.start()
            while not lanes._waiting:
                time.sleep(0.001)
            second = threading.Thread(target=build)
            second.start()
            time.sleep(0.05)
            assert order == []
        first.join()
        second.join()
        assert order == ["measure", "build"]

    @pytest.mark.parametrize(
        "make", [lambda: Lanes.gpus([]), lambda: Lanes.gpus([1, 1]), lambda: Lanes.cores([[0, 1], [1]])]
    )
    def test_lanes_that_are_none_or_share_are_refused(self, make):
        with pytest.raises(UsageError, match="lanes"):
            make()
