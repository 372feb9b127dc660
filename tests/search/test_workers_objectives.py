"""Any Python callable gets to where it is evaluated, or the error says at once what to do."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from kernelwright.errors import MissingExtraError
from kernelwright.errors import UsageError
from kernelwright.search import AsyncWorker
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import MultiProcessWorker
from kernelwright.search import ObjectiveError
from kernelwright.search import SerialWorker
from kernelwright.search import Task

sys.path.append(str(Path(__file__).parent))
import misbehaving


def here(config):
    """An objective of a module that pytest did not put on the path."""
    return config["x"] + 1.0


class Scaled:
    """An objective with a state."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, config):
        return config["x"] * self.factor

    def method(self, config):
        return config["x"] * self.factor * 10


def score(objective, config, worker_type=MultiProcessWorker, **options):
    with worker_type(objective, **options) as worker:
        worker.submit(Task(1, config))
        [result] = worker.results(60.0)
    assert result.failure is None, result
    return result.scores[0]


@pytest.fixture
def script(tmp_path):
    """Run a script as a user would; what it printed and said."""

    def run(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "my_search.py"
        path.write_text(textwrap.dedent(code))
        return subprocess.run(
            [sys.executable, *(flags or (str(path),))],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )

    return run


MAIN = """
from kernelwright.search import MultiProcessWorker, Task
OFFSET = 40
print("imported")
def objective(config):
    return config["x"] + OFFSET
{guard}
    with MultiProcessWorker(objective) as worker:
        worker.submit(Task(1, {{"x": 2}}))
        print(worker.results()[0].scores)
"""


def test_a_function_of_a_module():
    assert score(misbehaving.behave, {"do": "return", "value": 3}) == 3.0


def test_a_module_that_is_not_on_the_path_is_loaded_from_its_file():
    assert score(here, {"x": 1.0}) == 2.0


def test_lambdas_closures_and_objects():
    factor = 3.0

    def closure(config):
        return config["x"] * factor

    assert score(closure, {"x": 2}, IsoMultiProcessWorker) == 6.0
    assert score(lambda config: config["x"] / factor, {"x": 3}) == 1.0
    assert score(Scaled(5.0), {"x": 2}) == 10.0
    assert score(Scaled(5.0).method, {"x": 2}) == 100.0
    assert score(functools.partial(add, 5), {"x": 2}) == 7.0


def add(amount, config):
    return config["x"] + amount


@pytest.mark.parametrize("flags", [(), ("-m", "my_search")])
def test_a_script(script, flags):
    ended = script(MAIN.format(guard='if __name__ == "__main__":'), *flags)
    assert ended.stdout.splitlines() == ["imported", "(42.0,)"], ended.stderr


def test_a_script_without_a_guard_is_told_so(script):
    ended = script(MAIN.format(guard="if True:"))
    assert ended.returncode == 1
    assert 'if __name__ == "__main__":' in ended.stderr.splitlines()[-1]


def test_code_that_has_no_file(script):
    ended = script("", "-c", MAIN.format(guard="if True:"))
    assert ended.stdout.splitlines() == ["imported", "(42.0,)"], ended.stderr


def test_without_cloudpickle_the_error_says_what_does_without(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(MissingExtraError, match=r"top level.*kernelwright\[search\]"):
        MultiProcessWorker(lambda config: 1.0).start()


@pytest.mark.parametrize("worker_type", [MultiProcessWorker, IsoMultiProcessWorker])
def test_what_cannot_be_sent_says_so_before_anything_runs(worker_type):
    lock = threading.Lock()
    with pytest.raises(ObjectiveError, match="open what it needs"):
        worker_type(lambda config: float(lock.locked())).start()


@pytest.mark.parametrize("worker_type", [MultiProcessWorker, IsoMultiProcessWorker])
def test_what_cannot_be_loaded_says_so_before_anything_runs(worker_type):
    with pytest.raises(ObjectiveError, match="no such thing there"):
        worker_type(misbehaving.Homesick()).start()


@pytest.mark.parametrize("worker_type", [MultiProcessWorker, AsyncWorker, SerialWorker])
def test_what_takes_another_number_of_arguments_is_refused(worker_type):
    with pytest.raises(ObjectiveError, match=r"takes \(\)"):
        worker_type(lambda: 1.0)
    with pytest.raises(ObjectiveError, match="cannot be called"):
        worker_type(3.0)


def test_an_objective_that_is_not_async_is_refused_by_the_event_loop():
    with pytest.raises(ObjectiveError, match="async def"):
        AsyncWorker(misbehaving.empty)


@pytest.mark.parametrize("options", [{"num_workers": 0}, {"task_timeout": 0.0}, {"num_objectives": 0}])
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        MultiProcessWorker(misbehaving.empty, **options)


def test_tasks_are_taken_between_start_and_close_only():
    worker = MultiProcessWorker(misbehaving.empty)
    with pytest.raises(UsageError, match="start"):
        worker.submit(Task(1, {}))
    with worker:
        worker.submit(Task(1, {}))
        with pytest.raises(UsageError, match="running already"):
            worker.submit(Task(1, {}))
    with pytest.raises(UsageError, match="close"):
        worker.submit(Task(2, {}))
    worker.close()
    with worker:  # it may be started again
        worker.submit(Task(3, {}))
        assert worker.results(30.0)[0].scores == (1.0,)


def test_a_module_named_to_preload_is_there_in_every_process():
    assert score(loaded, {"name": "colorsys"}, IsoMultiProcessWorker, preload=["colorsys"]) == 1.0
    assert score(loaded, {"name": "colorsys"}, IsoMultiProcessWorker) == 0.0


def loaded(config):
    return float(config["name"] in sys.modules)


DRIVER = """
import sys
sys.path.append({folder!r})
import misbehaving
from kernelwright.search import {worker}, Task
if __name__ == "__main__":
    with {worker}({objective}, 2) as worker:
        worker.submit(Task(0, {{"do": "pid"}}))
        pid = int(worker.results()[0].scores[0])
        worker.submit(Task(1, {{"do": "leave a process"}}))
        worker.submit(Task(2, {{"do": "hang"}}))
        print(pid, flush=True)
        worker.results(), worker.results()
"""


@pytest.mark.parametrize(
    ("worker", "objective"),
    [
        ("MultiProcessWorker", "misbehaving.behave"),
        ("IsoMultiProcessWorker", "misbehaving.behave"),
        ("AsyncWorker", "misbehaving.behave_async"),
        pytest.param("RayWorker", "misbehaving.behave", marks=pytest.mark.serial),
    ],
)
def test_nothing_outlives_a_search_that_is_killed(worker, objective):
    code = DRIVER.format(worker=worker, objective=objective, folder=str(Path(__file__).parent))
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip().isdigit()
    # What was submitted last may only be starting, and what was first be ending.
    deadline = time.monotonic() + 60.0
    while len(family := below(process.pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(family) >= 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30.0
    while family and time.monotonic() < deadline:
        family = {pid for pid in family if alive(pid)}
        time.sleep(0.02)
    assert not family


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def below(root: int) -> set[int]:
    return {one.pid for one in psutil.Process(root).children(recursive=True)}
