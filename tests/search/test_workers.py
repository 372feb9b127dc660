"""Whatever an objective does, each task gets one typed result, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from kernelwright.errors import UsageError
from kernelwright.search import AsyncWorker
from kernelwright.search import INVALID_SCORE
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import MultiProcessWorker
from kernelwright.search import ObjectiveError
from kernelwright.search import RayWorker
from kernelwright.search import SerialWorker
from kernelwright.search import Task

sys.path.append(str(Path(__file__).parent))
import misbehaving

CAREFUL = {"memory_bytes": 8 << 30, "max_processes": 40}
PROCESS_WORKERS = (MultiProcessWorker, IsoMultiProcessWorker)


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it ended meanwhile


def descendants() -> set[int]:
    """All processes below this one, and those of Ray's raylet, which are not."""
    below = {os.getpid()}
    table = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                table[int(entry.name)] = int(fields[1])
    grew = True
    while grew:
        more = {pid for pid, parent in table.items() if parent in below} - below
        grew = bool(more)
        below |= more
    return below - {os.getpid()}


def sleepers() -> list[str]:
    """The processes that `leave a process` left."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and misbehaving.NAP.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def soon(condition, within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def run(worker, *configs):
    """The results of some tasks, in their order."""
    for number, config in enumerate(configs):
        worker.submit(Task(number, config))
    found = {}
    while worker.pending:
        for result in worker.results(60.0):
            found[result.number] = result
    return [found[number] for number in range(len(configs))]


def one(worker, do, **more):
    [result] = run(worker, {"do": do, **more})
    assert (result.scores is None) != (result.failure is None)
    assert result.seconds >= 0.0
    assert abs(time.time() - result.started_at) < 120.0
    return result


def kind(worker, do, **more):
    return one(worker, do, **more).failure.kind


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of a Ray cluster on this machine."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


KINDS = [
    pytest.param(MultiProcessWorker, id="pool"),
    pytest.param(IsoMultiProcessWorker, id="iso"),
    pytest.param(AsyncWorker, id="async"),
    pytest.param(RayWorker, id="ray", marks=pytest.mark.serial),
]


@pytest.fixture(scope="class", params=KINDS)
def each_kind(request):
    if request.param is RayWorker:
        request.getfixturevalue("cluster")
    return request.param


@contextlib.contextmanager
def started(worker_type, task_timeout):
    objective = misbehaving.behave_async if worker_type is AsyncWorker else misbehaving.behave
    half = {"num_cpus": 0.5} if worker_type is RayWorker else {}  # there is room for two of them
    with worker_type(objective, 2, task_timeout=task_timeout, **CAREFUL, **half) as worker:
        yield worker
        assert one(worker, "return", value=1.5).scores == (1.5,)


@pytest.fixture(scope="class")
def worker(each_kind):
    """A worker of each kind; it has to survive everything that follows."""
    with started(each_kind, 60.0) as worker:
        yield worker


@pytest.fixture(scope="class")
def impatient(each_kind):
    """One for tasks that are never done."""
    with started(each_kind, 1.5) as worker:
        yield worker


class TestConformance:
    """What holds for every worker."""

    def test_a_score_is_a_number_in_any_guise(self, worker):
        numbers = run(worker, *({"do": "return", "value": value} for value in (1, 2.5, [3.0], (4,))))
        assert [result.scores for result in numbers] == [(1.0,), (2.5,), (3.0,), (4.0,)]
        assert all(result.failure is None for result in numbers)

    @pytest.mark.parametrize("value", [float("nan"), INVALID_SCORE, float("-inf"), None, "1.0", True, {}])
    def test_what_is_no_score_is_invalid(self, worker, value):
        failure = one(worker, "return", value=value).failure
        assert failure.kind == "invalid_score"
        assert repr(value) in failure.reason

    @pytest.mark.parametrize("value", [(1.0, 2.0), []])
    def test_the_number_of_scores_has_to_be_right(self, worker, value):
        failure = one(worker, "return", value=value).failure
        assert failure.kind == "wrong_arity"
        assert f"{len(value)} scores" in failure.reason

    def test_a_result_that_cannot_be_sent_is_no_score(self, worker):
        assert kind(worker, "return a lock") == "invalid_score"

    def test_an_exception_is_a_failure_with_its_last_lines(self, worker):
        result = one(worker, "raise", tile=9)
        assert result.failure.kind == "raised"
        assert result.failure.reason == "ValueError: tile 9 does not divide 64"
        assert "about to fail" in result.stderr
        assert "in raise_error" in result.stderr
        assert result.stderr.endswith("ValueError: tile 9 does not divide 64")
        assert "_task" not in result.stderr

    def test_an_exception_without_a_text_is_one_too(self, worker):
        assert kind(worker, "raise a text that raises") == "raised"

    def test_a_configuration_that_cannot_be_sent_is_a_failure(self, worker):
        failure = one(worker, "return", value=lambda: None).failure
        assert failure.kind == "unpicklable"
        assert "configuration cannot be sent" in failure.reason

    def test_what_hangs_is_ended_at_the_limit(self, impatient):
        result = one(impatient, "hang")
        assert result.failure.kind == "timeout"
        assert "1.5 s" in result.failure.reason
        assert 1.4 < result.seconds < 40.0

    def test_with_what_hangs_ends_all_that_it_started(self, impatient):
        assert kind(impatient, "leave a process and hang") == "timeout"
        assert not sleepers()

    @pytest.mark.parametrize(("do", "signal"), [("segfault", "SIGSEGV"), ("kill", "SIGKILL")])
    def test_a_crash_names_its_signal(self, worker, do, signal):
        result = one(worker, do)
        assert result.failure.kind == "crashed"
        assert signal in result.failure.reason
        assert do != "segfault" or ("misbehaving.py" in result.stderr and "_task" not in result.stderr)

    def test_memory_that_cannot_be_had_is_its_own_kind(self, worker):
        assert kind(worker, "memory") == "out_of_memory"

    @pytest.mark.parametrize(("do", "code"), [("exit", "3"), ("_exit", "4")])
    def test_an_objective_that_ends_its_process_is_a_failure(self, worker, do, code):
        failure = one(worker, do).failure
        assert failure.kind == "exited"
        assert code in failure.reason

    def test_a_flood_of_output_is_swallowed(self, worker):
        result = one(worker, "flood")
        assert result.scores == (3.0,)
        assert len(result.stderr) <= 4000

    def test_a_fork_bomb_is_stopped(self, worker):
        failure = one(worker, "fork bomb").failure
        assert failure.kind == "crashed"
        assert "processes" in failure.reason

    def test_a_fork_that_returns_twice_counts_once(self, worker):
        assert one(worker, "come back twice").scores == (1.0,)
        assert one(worker, "return", value=2.0).scores == (2.0,)

    def test_threads_that_are_left_do_not_disturb(self, worker):
        assert one(worker, "leave a thread").scores == (1.0,)
        assert one(worker, "return", value=2.0).scores == (2.0,)

    def test_one_that_fails_does_not_spoil_its_neighbours(self, worker):
        deeds = ["return", "segfault", "return", "kill", "return", "_exit", "return"]
        results = run(worker, *({"do": do, "value": 5.0} for do in deeds))
        assert [result.scores for result in results] == [(5.0,) if do == "return" else None for do in deeds]

    def test_tasks_beyond_the_room_wait(self, worker):
        assert worker.free == 2
        for number in range(5):
            worker.submit(Task(number, {"do": "wait", "seconds": 0.05}))
        assert worker.free == 0
        assert worker.pending == set(range(5))
        assert worker.results(0.0) == []
        while worker.pending:
            worker.results(10.0)
        assert worker.free == 2

    def test_two_run_at_once(self, worker, tmp_path):
        pair = [tmp_path / "one", tmp_path / "other"]
        results = run(worker, *({"do": "meet", "here": a, "other": b} for a, b in (pair, pair[::-1])))
        assert [result.scores for result in results] == [(1.0,), (1.0,)]

    def test_results_without_tasks_are_none(self, worker):
        assert worker.results(10.0) == []


@pytest.mark.parametrize("worker_type", [*PROCESS_WORKERS, AsyncWorker])
def test_no_process_is_left(worker_type):
    before = descendants()
    objective = misbehaving.behave_async if worker_type is AsyncWorker else misbehaving.behave
    with worker_type(objective, 2) as worker:
        assert one(worker, "leave a process").scores == (1.0,)
        if worker_type is not AsyncWorker:
            assert soon(lambda: not sleepers())  # ended with its task, not only with the worker
        worker.submit(Task(7, {"do": "hang"}))
    assert descendants() <= before
    assert not sleepers()
    assert worker.pending == set()


class TestProcesses:
    """What holds for the pool, or for one process a task."""

    def test_the_pool_keeps_its_processes_warm(self):
        with MultiProcessWorker(misbehaving.behave) as worker:
            assert [one(worker, "mark").scores for _ in range(3)] == [(1.0,), (2.0,), (3.0,)]

    @pytest.mark.parametrize("spoiler", ["leave a thread", "leave a process", "cuda", "kill"])
    def test_the_pool_replaces_a_process_that_is_spoilt(self, spoiler):
        with MultiProcessWorker(misbehaving.behave) as worker:
            assert one(worker, "mark").scores == (1.0,)
            one(worker, spoiler)
            assert one(worker, "mark").scores == (1.0,)

    def test_the_pool_keeps_one_in_which_an_objective_only_raised(self):
        with MultiProcessWorker(misbehaving.behave) as worker:
            assert one(worker, "mark").scores == (1.0,)
            one(worker, "raise")
            one(worker, "exit")
            assert one(worker, "mark").scores == (2.0,)

    def test_leftovers_may_be_tolerated(self):
        with MultiProcessWorker(misbehaving.behave, tolerate_leftovers=True) as worker:
            one(worker, "mark")
            one(worker, "leave a thread")
            assert one(worker, "mark").scores == (2.0,)

    def test_a_process_that_dies_while_idle_costs_nobody_a_task(self):
        with MultiProcessWorker(misbehaving.behave) as worker:
            pid = int(one(worker, "pid").scores[0])
            os.kill(pid, 9)
            assert soon(lambda: not Path(f"/proc/{pid}").exists())
            assert one(worker, "mark").scores == (1.0,)

    def test_isolated_tasks_each_find_a_clean_state(self):
        with IsoMultiProcessWorker(misbehaving.behave) as worker:
            assert [one(worker, "mark").scores for _ in range(3)] == [(1.0,), (1.0,), (1.0,)]
            assert one(worker, "pid").scores != one(worker, "pid").scores

    def test_a_template_that_dies_is_replaced(self):
        with IsoMultiProcessWorker(misbehaving.behave) as worker:
            family = {pid for pid in descendants() if b"_forkserver.py" in command(pid)}
            assert family
            for pid in family:
                os.kill(pid, 9)
            assert soon(lambda: not family & descendants())
            assert one(worker, "return", value=1.0).scores == (1.0,)

    @pytest.mark.parametrize("worker_type", PROCESS_WORKERS)
    def test_debug_shows_what_the_objective_writes(self, worker_type, capsys):
        with worker_type(misbehaving.behave, debug=True) as worker:
            one(worker, "speak")
        assert "[task 0] hello from the objective" in capsys.readouterr().err

    @pytest.mark.parametrize("worker_type", PROCESS_WORKERS)
    def test_an_async_objective_is_awaited(self, worker_type):
        with worker_type(misbehaving.empty_async) as worker:
            assert one(worker, "any").scores == (1.0,)

    @pytest.mark.parametrize("worker_type", [*PROCESS_WORKERS, SerialWorker])
    def test_several_scores(self, worker_type):
        with worker_type(misbehaving.two, num_objectives=2) as worker:
            results = run(worker, {}, {"first": float("nan")})
        assert results[0].scores == (1.0, 2.0)
        assert results[1].failure.kind == "invalid_score"

    def test_the_limit_of_the_next_task_is_its_own(self):
        with MultiProcessWorker(misbehaving.behave, task_timeout=2.0) as worker:
            results = run(worker, *[{"do": "wait", "seconds": 0.75}] * 3)
        assert [result.failure for result in results] == [None] * 3


class TestAsync:
    """What holds for one event loop."""

    def test_many_wait_at_once(self):
        with AsyncWorker(misbehaving.behave_async, num_workers=50) as worker:
            begun = time.monotonic()
            results = run(worker, *[{"do": "wait", "seconds": 0.3}] * 50)
            assert time.monotonic() - begun < 14.0, "one after another takes 15 s"
        assert all(result.scores == (0.3,) for result in results)

    def test_one_that_resists_does_not_cost_the_others(self):
        with AsyncWorker(misbehaving.behave_async, num_workers=3, task_timeout=2.0) as worker:
            results = run(
                worker, {"do": "stubborn"}, {"do": "wait", "seconds": 0.1}, {"do": "return", "value": 1.0}
            )
        assert results[0].failure.kind == "timeout"
        assert [results[1].scores, results[2].scores] == [(0.1,), (1.0,)]


class TestSerial:
    """The worker without a process."""

    def test_it_runs_here(self):
        with SerialWorker(misbehaving.behave) as worker:
            assert one(worker, "pid").scores == (float(os.getpid()),)
            assert worker.free == 1

    @pytest.mark.parametrize(("do", "failure"), [("raise", "raised"), ("exit", "exited")])
    def test_what_raises_is_a_failure_all_the_same(self, do, failure):
        with SerialWorker(misbehaving.behave) as worker:
            assert kind(worker, do) == failure

    def test_it_says_that_it_cannot_hold_a_limit(self):
        with pytest.warns(UserWarning, match="MultiProcessWorker"), SerialWorker(misbehaving.empty, 1, 3.0):
            pass


@pytest.mark.serial
@pytest.mark.usefixtures("cluster")
class TestRay:
    """What holds for a cluster."""

    def test_a_node_that_is_lost_costs_no_task(self, cluster):
        lost = cluster.add_node(num_cpus=2)
        with RayWorker(misbehaving.behave, num_workers=4, task_timeout=20.0) as worker:
            for number in range(16):
                worker.submit(Task(number, {"do": "wait", "seconds": 0.4 + number / 1000}))
            results = []
            while lost.node_id not in {result.metadata["node"] for result in results}:
                results += worker.results(60.0)
            cluster.remove_node(lost, allow_graceful=False)
            while worker.pending:
                results += worker.results(60.0)
        assert sorted(result.number for result in results) == list(range(16))
        assert all(result.scores == (0.4 + result.number / 1000,) for result in results)
        again = [result for result in results if result.metadata.get("attempt")]
        assert again
        assert lost.node_id not in {result.metadata["node"] for result in again}

    def test_each_gpu_is_given_to_one_process_and_has_a_baseline(self, cluster):
        node = cluster.add_node(num_cpus=2, num_gpus=2)
        with RayWorker(misbehaving.see, 2, num_gpus=1, num_cpus=0, baselines=True) as worker:
            results = run(worker, *[{"seconds": 0.3}] * 4)
            assert soon(lambda: len(worker.baselines) == 2)
        seen = {(result.metadata["device"], result.scores) for result in results}
        assert seen == {("gpu0", (0.0,)), ("gpu1", (1.0,))}
        assert set(worker.baselines.values()) == {(0.0,), (1.0,)}
        assert all(result.metadata["baseline"] == list(result.scores) for result in results)
        assert {result.metadata["node"] for result in results} == {node.node_id}
        cluster.remove_node(node)

    def test_isolated_tasks_each_have_a_process_and_none_is_left(self):
        with RayWorker(misbehaving.behave, isolated=True) as worker:
            assert [one(worker, "mark").scores for _ in range(2)] == [(1.0,), (1.0,)]
            assert one(worker, "leave a process").scores == (1.0,)
            pid = int(one(worker, "pid").scores[0])
            assert not sleepers()
            worker.submit(Task(7, {"do": "hang"}))
        assert soon(lambda: not Path(f"/proc/{pid}").exists())

    def test_an_objective_by_value(self):
        with RayWorker(lambda config: config["x"] * 2) as worker:
            [result] = run(worker, {"x": 4})
        assert result.scores == (8.0,)

    def test_what_cannot_be_loaded_there_is_an_error_at_the_start(self):
        with pytest.raises(ObjectiveError, match="no such thing there"):
            RayWorker(misbehaving.Homesick()).start()

    def test_a_cluster_without_room_says_what_it_has(self, monkeypatch):
        monkeypatch.setattr("kernelwright.search._ray._START_PATIENCE_S", 0.5)
        with pytest.raises(UsageError, match="num_gpus=64"):
            RayWorker(misbehaving.behave, num_gpus=64).start()


@pytest.mark.serial
@pytest.mark.parametrize(
    ("worker_type", "limit_ms"), [(MultiProcessWorker, 1.0), (IsoMultiProcessWorker, 15.0)]
)
def test_an_empty_objective_costs_little(worker_type, limit_ms):
    with worker_type(misbehaving.empty) as worker:
        times = []
        # The least: what else the machine does is not what is tested.
        while len(times) < 600 and (len(times) < 10 or min(times) > limit_ms):
            begun = time.perf_counter()
            one(worker, "any")
            times.append(1e3 * (time.perf_counter() - begun))
    assert min(times) <= limit_ms
