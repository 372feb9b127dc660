"""Tasks on the machines of a Ray cluster."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from kernelwright.errors import MissingExtraError
from kernelwright.errors import UsageError
from kernelwright.search._evaluation import BASELINE_CONFIG
from kernelwright.search._family import Family
from kernelwright.search._objective import ObjectiveError
from kernelwright.search._objective import pack
from kernelwright.search._optimizer import Failure
from kernelwright.search._slots import Rules
from kernelwright.search._slots import Slot
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker

_ATTEMPTS = 3
_START_PATIENCE_S = 60.0
#: So many actors in a row that do not come up, with none that is there, end the wait for one.
_HOPELESS = 5


def import_ray() -> Any:
    """Ray, or an error that says how to get it."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "for RayWorker") from None
    return ray


class Supervisor:
    """What runs in an actor: a slot with its family of processes, on a node of the cluster."""

    def __init__(self, name: str, packed: bytes, rules: Rules) -> None:
        self._family = Family(packed)
        self._slot = Slot(name, self._family, rules)
        self._resting: threading.Thread | None = None

    def open(self) -> dict[str, str]:
        """Have a process ready; ObjectiveError when it cannot have the objective. Says where this is."""
        self._slot.prepare()
        ray = import_ray()
        gpus = ",".join(map(str, ray.get_gpu_ids()))
        return {
            "node": ray.get_runtime_context().get_node_id(),
            "host": os.uname().nodename,
            "device": f"gpu{gpus}" if gpus else "cpu",
        }

    def run(self, task: Task) -> TaskResult:
        """Run one task in a process of its own, or in the one that is kept warm."""
        if self._resting is not None:
            self._resting.join()
        result = self._slot.run(task)
        self._resting = threading.Thread(target=self._slot.rest, daemon=True)
        self._resting.start()
        return result


@dataclass
class _Place:
    """An actor, and where it is once that is known."""

    number: int
    actor: Any
    where: Mapping[str, str] | None = None
    task: Task | None = None

    @property
    def key(self) -> str:
        """The node and device, as results and baselines name it."""
        return f"{self.where['node']}/{self.where['device']}" if self.where is not None else ""


class RayWorker(Worker):
    """Runs tasks on a Ray cluster: each of `num_workers` actors supervises a process on its node.

    The actor holds `num_cpus` and `num_gpus`; its process sees the GPUs that Ray assigned through
    CUDA_VISIBLE_DEVICES, so one task at a time measures on each. The process is kept warm, or is a new one
    for every task where `isolated`. `task_timeout` is held on the node: the process is killed with all that
    it started, and the actor lives on. When a node, or an actor, is lost, its task is run elsewhere, up to
    three times in all, and a new actor is asked for. The objective travels by value where it is of
    `__main__`, else by name: its module has to be on every node (see Ray's `runtime_env`). Ray sets
    OMP_NUM_THREADS to `num_cpus`: an objective that measures on more processors sets its threads itself.

    Results say in `metadata` which `node`, `host` and `device` they are of. With `baselines`, every node and
    device evaluates BASELINE_CONFIG before its first task; `baselines` has what came of it by "node/device",
    and so does `metadata["baseline"]` of every result, so that scores of unlike machines can be compared.

    A cluster that is connected is used; else that of `address`, or a local one is started, which ends with
    this worker.
    """

    name = "ray"

    def __init__(
        self,
        objective: Any,
        num_workers: int = 1,
        task_timeout: float | None = None,
        num_objectives: int = 1,
        debug: bool = False,
        *,
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        address: str | None = None,
        isolated: bool = False,
        baselines: bool = False,
        preload: tuple[str, ...] = (),
        memory_bytes: int | None = None,
        max_processes: int = 512,
        tolerate_leftovers: bool = False,
    ) -> None:
        """See the class, and ProcessWorker for the last four; MissingExtraError without Ray."""
        super().__init__(objective, num_workers, task_timeout, num_objectives, debug)
        if num_cpus < 0 or num_gpus < 0:
            raise UsageError(f"num_cpus is {num_cpus} and num_gpus {num_gpus}; neither can be below zero")
        self._ray = import_ray()
        self._resources = {"num_cpus": num_cpus, "num_gpus": num_gpus}
        self._address = address
        self._settings = {"num_objectives": num_objectives, "preload": list(preload)}
        self._rules = Rules(isolated, task_timeout, memory_bytes, max_processes, tolerate_leftovers, debug)
        self._wants_baselines = baselines
        self.baselines: dict[str, tuple[float, ...] | Failure] = {}
        self._ours = False
        self._thread: threading.Thread | None = None
        self._reset()

    def _reset(self) -> None:
        self._events: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._queue: deque[Task] = deque()
        self._places: list[_Place] = []
        self._hired = 0
        self._failed = 0

    # -- in the search's thread ----------------------------------------------------------------------------

    def _open(self) -> None:
        self._reset()
        packed = pack(self.objective, self._settings, by_value=True)
        ray = self._ray
        if not ray.is_initialized():
            local: dict[str, Any] = {"address": self._address}
            if self._address is None and not os.environ.get("RAY_ADDRESS"):
                cpus = math.ceil(self.num_workers * self._resources["num_cpus"])
                # "local": Ray would else look for the cluster of a driver that was killed, and fail.
                local = {
                    "address": "local",
                    "num_cpus": max(cpus, os.cpu_count() or 1),
                    "include_dashboard": False,
                }
            self._ours = True
            ray.init(log_to_driver=self.debug, **local)
        self._packed = ray.put(packed)
        for _ in range(self.num_workers):
            self._hire()
        self._wait_for_one()
        self._thread = threading.Thread(target=self._follow, name=self.name, daemon=True)
        self._thread.start()

    def _wait_for_one(self) -> None:
        """Wait until one actor is there: the others come as the cluster has room."""
        deadline = time.monotonic() + _START_PATIENCE_S
        while not any(place.where for place in self._places):
            try:
                what, place, answer = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                wanted = ", ".join(f"{name}={value:g}" for name, value in self._resources.items())
                raise UsageError(
                    f"no node of the Ray cluster had room for a worker with {wanted} within "
                    f"{_START_PATIENCE_S:.0f} s; it offers {self._ray.cluster_resources()}"
                ) from None
            self._handle(what, place, answer)
            if self._failed >= _HOPELESS:
                raise UsageError(f"no worker could be started on the Ray cluster: {answer}")

    def _submit(self, task: Task) -> None:
        self._events.put(("task", None, task))

    def _close(self) -> None:
        if self._thread is not None:
            self._events.put(("close", None, None))
            self._thread.join()
            self._thread = None
        for place in self._places:
            with contextlib.suppress(Exception):  # a cluster that is gone has no actors either
                self._ray.kill(place.actor)
        self._places = []
        if self._ours:
            self._ray.shutdown()
            self._ours = False

    # -- in the thread that listens ------------------------------------------------------------------------

    def _follow(self) -> None:
        while True:
            what, place, answer = self._events.get()
            if what == "close":
                return
            self._handle(what, place, answer)

    def _handle(self, what: str, place: _Place | None, answer: Any) -> None:
        """Take one event: a task, or the answer of an actor, which may be an exception."""
        if what == "task":
            self._queue.append(answer)
        elif place is not None and place not in self._places:
            return  # a second word from one that was given up
        elif place is not None and isinstance(answer, Exception):
            self._take_error(place, answer)
        elif place is not None and what == "opened":
            self._failed = 0
            place.where = answer
        elif place is not None:
            self._take_result(place, answer)
        self._dispatch()

    def _take_error(self, place: _Place, error: Exception) -> None:
        cause = getattr(error, "cause", None)
        if isinstance(cause, ObjectiveError) and self._thread is None:
            raise cause
        self._places.remove(place)
        with contextlib.suppress(Exception):
            self._ray.kill(place.actor)
        if place.where is None:
            self._failed += 1
        task = place.task
        if task is not None and task.number >= 0 and task.attempt >= _ATTEMPTS:
            reason = f"the worker was lost {task.attempt} times with this task, at last so: {_line(error)}"
            self._fail(task, reason)
        elif task is not None and task.number >= 0:
            self._queue.appendleft(replace(task, attempt=task.attempt + 1))
        if self._failed < _HOPELESS:
            self._hire()
        elif not self._places:
            for one in self._queue:
                self._fail(one, f"no worker can be started on the Ray cluster: {_line(error)}")
            self._queue.clear()
            self._failed = 0
            self._hire()

    def _take_result(self, place: _Place, result: TaskResult) -> None:
        task, place.task = place.task, None
        if task is None:
            return
        if task.baseline or task.number < 0:
            self.baselines[place.key] = result.scores if result.scores is not None else _failure(result)
        if task.number >= 0:
            more: dict[str, Any] = {**result.metadata, **(place.where or {})}
            known = self.baselines.get(place.key)
            if known is not None:
                more["baseline"] = known.reason if isinstance(known, Failure) else list(known)
            self._done(replace(result, metadata=more))

    def _dispatch(self) -> None:
        for place in self._places:
            if place.where is None or place.task is not None or not self._queue:
                continue
            if self._wants_baselines and place.key not in self.baselines:
                place.task = Task(-1, dict(BASELINE_CONFIG), baseline=True)
            else:
                place.task = self._queue.popleft()
            self._ask("ran", place, place.actor.run.remote(place.task))

    def _hire(self) -> None:
        """Ask for an actor; Ray starts it where and when there is room."""
        number, self._hired = self._hired, self._hired + 1
        remote = self._ray.remote(Supervisor).options(**self._resources, max_restarts=0, max_task_retries=0)
        place = _Place(number, remote.remote(f"{self.name}-{number}", self._packed, self._rules))
        self._places.append(place)
        self._ask("opened", place, place.actor.open.remote())

    def _ask(self, what: str, place: _Place, reference: Any) -> None:
        """Have the answer, when it is there, put among the events."""
        events = self._events

        def tell(future: Any) -> None:
            error = future.exception()
            events.put((what, place, error if error is not None else future.result()))

        reference.future().add_done_callback(tell)

    def _fail(self, task: Task, reason: str) -> None:
        now = time.time()
        self._done(TaskResult(task.number, None, Failure("worker_lost", reason), now, 0.0, self.name))


def _failure(result: TaskResult) -> Failure:
    return result.failure if result.failure is not None else Failure("worker_lost")


def _line(error: Exception) -> str:
    """The first line of what Ray says, which may be long."""
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
