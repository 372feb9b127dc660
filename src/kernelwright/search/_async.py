"""Async objectives, many at once, on one event loop in a process of its own."""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from kernelwright.process import Child
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import Limits
from kernelwright.search import _task
from kernelwright.search._family import Closing
from kernelwright.search._family import Family
from kernelwright.search._family import SLICE_S
from kernelwright.search._objective import ObjectiveError
from kernelwright.search._objective import pack
from kernelwright.search._objective import pack_configuration
from kernelwright.search._optimizer import Failure
from kernelwright.search._slots import failure_of
from kernelwright.search._worker import last_lines
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker

_GRACE_S = 1.0
_ATTEMPTS = 3


@dataclass
class _Running:
    """A task on the loop."""

    task: Task
    config: str
    started_at: float
    begun: float
    mark: tuple[int, int]


class AsyncWorker(Worker):
    """Awaits up to `num_workers` calls of an `async def` objective at once, on one event loop.

    For objectives that wait: for a server, a queue, another machine. The loop is in a child process, so an
    objective that crashes does not take the search along. A task is cancelled at `task_timeout`; one that
    does not let itself be cancelled, or blocks the loop, ends with the process, which is replaced. Tasks that
    were on the loop meanwhile are run again; where it is not known which one it was, each is run again alone,
    so that the innocent get their scores. A result's `stderr` may have lines of tasks that ran beside it.
    """

    name = "async"

    def __init__(
        self,
        objective: Any,
        num_workers: int = 1,
        task_timeout: float | None = None,
        num_objectives: int = 1,
        debug: bool = False,
        *,
        memory_bytes: int | None = None,
        max_processes: int = 512,
    ) -> None:
        """See Worker, and ProcessWorker for the others; ObjectiveError for one that is not async."""
        super().__init__(objective, num_workers, task_timeout, num_objectives, debug)
        if inspect.isroutine(objective) and not inspect.iscoroutinefunction(objective):
            raise ObjectiveError(
                f"the objective {_task.repr_of(objective)} is no `async def`; make it one, or use "
                "MultiProcessWorker or IsoMultiProcessWorker"
            )
        if _task.is_staged(objective):
            raise ObjectiveError(
                "AsyncWorker runs no objectives in stages; use MultiProcessWorker or IsoMultiProcessWorker"
            )
        self._limits = Limits(wall_s=math.inf, memory_bytes=memory_bytes)
        self._max_processes = max_processes
        self._family: Family | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._fresh()

    def _fresh(self) -> None:
        self._queue: deque[Task] = deque()
        self._suspects: deque[Task] = deque()
        self._running_tasks: dict[int, _Running] = {}
        self._retired = False
        self._pinged: float | None = None
        self._shown = (0, 0)
        self._lost = 0
        self._alone: int | None = None

    def _open(self) -> None:
        self._fresh()
        self._family = Family(pack(self.objective, {"num_objectives": self.num_objectives, "preload": []}))
        self._child = self._start_child(self._family)
        self._thread = threading.Thread(
            target=self._follow, args=(self._family,), name=self.name, daemon=True
        )
        self._thread.start()

    def _start_child(self, family: Family) -> Child:
        child = family.child("_task_async.py", limits=self._limits)
        try:
            family.ready(child)
        except BaseException:
            child.kill()
            raise
        return child

    def _submit(self, task: Task) -> None:
        with self._lock:
            self._queue.append(task)
            self._dispatch()

    def _close(self) -> None:
        if self._family is None:
            return
        self._family.closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._child is not None:
            self._child.kill()
        self._family.close()
        self._family = self._thread = self._child = None

    # -- with the lock held --------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Put on the loop what may be there: one suspect, alone, or as many others as there is room for."""
        while self._child is not None and not self._retired and self._pinged is None:
            if self._suspects:
                if self._running_tasks:
                    return
                task = self._suspects.popleft()
                self._alone = task.number
            elif self._queue and len(self._running_tasks) < self.num_workers and self._alone is None:
                task = self._queue.popleft()
            else:
                return
            try:
                config = pack_configuration(task.config)
            except Exception as error:  # noqa: BLE001 - pickling runs methods of the user's classes
                reason = f"the configuration cannot be sent to a process: {type(error).__name__}: {error}"
                self._result(task, Failure("unpicklable", reason), time.time(), 0.0, "")
                continue
            mark = self._child.said()[2]
            self._running_tasks[task.number] = _Running(task, config, time.time(), time.monotonic(), mark)
            with contextlib.suppress(ChildEnded, ChildTimeout):  # the thread that listens will notice
                self._child.send({"number": task.number, "config": config, "timeout": self.task_timeout})

    def _result(
        self, task: Task, what: tuple[float, ...] | Failure, started_at: float, seconds: float, stderr: str
    ) -> None:
        self._done(
            TaskResult(
                task.number,
                None if isinstance(what, Failure) else what,
                what if isinstance(what, Failure) else None,
                started_at,
                seconds,
                self.name,
                last_lines(stderr),
                {"attempt": task.attempt} if task.attempt > 1 else {},
            )
        )

    def _settle(self, one: _Running, what: tuple[float, ...] | Failure, seconds: float | None = None) -> None:
        """Give the result of a task that is on the loop."""
        del self._running_tasks[one.task.number]
        if self._alone == one.task.number:
            self._alone = None
        stderr = self._child.said(one.mark)[1] if self._child is not None else ""
        spent = time.monotonic() - one.begun if seconds is None else seconds
        self._result(one.task, what, one.started_at, spent, stderr)

    # -- the thread that listens ---------------------------------------------------------------------------

    def _follow(self, family: Family) -> None:
        with contextlib.suppress(Closing):
            while True:
                child = self._child
                assert child is not None
                failure: Failure | None = None
                try:
                    message = family.receive(child, SLICE_S)
                except ChildTimeout:
                    failure = self._look(child)
                except ChildEnded as error:
                    failure = failure_of(error.outcome)
                except ChildGarbled as error:
                    failure = Failure("crashed", f"the objective wrote to the channel of its worker: {error}")
                else:
                    self._show(child)
                    self._take(message)
                if failure is not None:
                    self._blame(child, failure)
                if failure is not None or (self._retired and not self._running_tasks):
                    self._replace(family, child)

    def _take(self, message: dict[str, Any]) -> None:
        """Take an answer of the child."""
        with self._lock:
            self._lost = 0
            if message["op"] == "pong":
                # The loop goes round, and yet a task is late: it does not let itself be cancelled.
                self._pinged = None
                self._retired = True
                for one in self._late(_GRACE_S):
                    limit = self.task_timeout
                    reason = f"not done after {limit:g} s; it did not let itself be cancelled"
                    self._settle(one, Failure("timeout", reason))
                self._queue.extendleft(again(one.task) for one in self._running_tasks.values())
                self._running_tasks.clear()
                return
            one = self._running_tasks[message["number"]]
            self._retired = self._retired or bool(message["retire"])
            failed = message["failure"]
            self._settle(one, Failure(*failed) if failed else tuple(message["scores"]), message["seconds"])
            self._dispatch()

    def _late(self, grace_s: float) -> list[_Running]:
        if self.task_timeout is None:
            return []
        limit = time.monotonic() - self.task_timeout - grace_s
        return [one for one in self._running_tasks.values() if one.begun < limit]

    def _show(self, child: Child) -> None:
        if self.debug:
            out, err, self._shown = child.said(self._shown)
            sys.stderr.write(out + err)

    def _look(self, child: Child) -> Failure | None:
        """See how the child does while it says nothing; why it has to end, or None."""
        self._show(child)
        count = child.processes()
        if count > self._max_processes:
            return Failure("crashed", f"{count} processes, of {self._max_processes} allowed; all were killed")
        with self._lock:
            if self._pinged is not None:
                if time.monotonic() - self._pinged > _GRACE_S:
                    limit = self.task_timeout
                    return Failure("timeout", f"the event loop was blocked for longer than {limit:g} s")
            elif self._late(_GRACE_S):
                self._pinged = time.monotonic()
                with contextlib.suppress(ChildEnded, ChildTimeout):
                    child.send({"op": "ping"})
        return None

    def _blame(self, child: Child, failure: Failure) -> None:
        """The child has to end, or has ended: whose doing was it?"""
        with self._lock:
            child.kill()
            if len(self._running_tasks) == 1:
                [one] = self._running_tasks.values()
                self._settle(one, failure)
            for one in list(self._running_tasks.values()):
                self._suspects.append(again(one.task))
            self._running_tasks.clear()

    def _replace(self, family: Family, child: Child) -> None:
        with self._lock:
            self._child = None
            self._pinged = None
        child.kill()
        while True:
            try:
                fresh = self._start_child(family)
                break
            except (ObjectiveError, ChildEnded) as error:
                self._lost += 1
                if self._lost >= _ATTEMPTS:
                    self._give_up(str(error))
        with self._lock:
            self._child, self._retired, self._shown = fresh, False, (0, 0)
            self._dispatch()

    def _give_up(self, reason: str) -> None:
        """No process can be had: say so for every task that waits."""
        with self._lock:
            for task in (*self._suspects, *self._queue):
                self._result(task, Failure("worker_lost", reason), time.time(), 0.0, "")
            self._suspects.clear()
            self._queue.clear()
        time.sleep(SLICE_S)


def again(task: Task) -> Task:
    """The task, for another attempt."""
    return replace(task, attempt=task.attempt + 1)
