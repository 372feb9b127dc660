"""One place where tasks are run, one after the other, in children that a family makes."""

from __future__ import annotations

import contextlib
import math
import queue
import sys
import threading
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from kernelwright.process import Child
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.search._family import Closing
from kernelwright.search._family import Family
from kernelwright.search._family import SLICE_S
from kernelwright.search._lanes import Device
from kernelwright.search._lanes import Lanes
from kernelwright.search._objective import ObjectiveError
from kernelwright.search._objective import pack
from kernelwright.search._objective import pack_configuration
from kernelwright.search._optimizer import Failure
from kernelwright.search._stages import Measured
from kernelwright.search._worker import last_lines
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker

_EXIT_PATIENCE_S = 1.0
_ATTEMPTS = 3
#: What making a child ready may raise; the next task that needs one will report it.
_TROUBLE = (ObjectiveError, ChildEnded, ChildGarbled, OSError)


@dataclass(frozen=True)
class Rules:
    """What holds for every task of a worker; `once`: each process runs one task."""

    once: bool
    task_timeout: float | None = None
    memory_bytes: int | None = None
    max_processes: int = 512
    tolerate_leftovers: bool = False
    debug: bool = False

    def limits(self) -> Limits:
        """The limits of a child; its time is ours to watch, since it is there before its task is."""
        return Limits(wall_s=math.inf, memory_bytes=self.memory_bytes)


class TooManyProcesses(Exception):
    """A task started more processes than it may."""


class _Deadline:
    """A time limit that stands still while something else is waited for."""

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds left, or None without a limit."""
        return None if self._at is None else self._at - time.monotonic()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        begun = time.monotonic()
        yield
        if self._at is not None:
            self._at += time.monotonic() - begun


class _Watch:
    """Looks at a child while it works on a task."""

    def __init__(self, child: Child, mark: tuple[int, int], rules: Rules, task: Task) -> None:
        self._child = child
        self._begin = self._shown = mark
        self._rules = rules
        self._task = task

    def look(self, last: bool = False) -> None:
        """Show what it wrote, where that is wanted; TooManyProcesses when it started too many."""
        if self._rules.debug:
            out, err, self._shown = self._child.said(self._shown)
            for line in (out + err).splitlines():
                sys.stderr.write(f"[task {self._task.number}] {line}\n")
        if not last:
            count = self._child.processes()
            if count > self._rules.max_processes:
                raise TooManyProcesses(
                    f"the objective had {count} processes, of {self._rules.max_processes} that a task may "
                    "have; all were killed"
                )

    def stderr(self) -> str:
        """What the task has written to its standard error."""
        return self._child.said(self._begin)[1]


class Slot:
    """Runs one task at a time. Everything but `Family.close` is called from one thread."""

    def __init__(
        self,
        name: str,
        family: Family,
        rules: Rules,
        *,
        lanes: Lanes | None = None,
        device: Device | None = None,
        measured: Measured | None = None,
    ) -> None:
        self.name = name
        self._family = family
        self._rules = rules
        self._lanes = lanes
        self._device = device
        self._measured = measured if measured is not None else Measured()
        self._child: Child | None = None
        self._ready = False
        self._staged = False

    def prepare(self) -> Child:
        """Have a child that waits for a task; ObjectiveError when none can load the objective."""
        if self._child is not None and self._child.outcome is not None:
            self._drop()
        try:
            if self._child is None:
                self._child = self._new()
            if not self._ready:
                self._staged = self._family.ready(self._child)
                self._ready = True
        except BaseException:
            self._drop()
            raise
        return self._child

    def _new(self) -> Child:
        """A child that is about to be ready."""
        self._ready = False
        how = "once" if self._rules.once else "many"
        env = self._device.environment() if self._device is not None else None
        return self._family.child("_task_child.py", how, limits=self._rules.limits(), env=env)

    def run(self, task: Task) -> TaskResult:
        """Run a task; Closing when the worker is closed meanwhile."""
        try:
            config = pack_configuration(task.config)
        except Exception as error:  # noqa: BLE001 - pickling runs methods of the user's classes
            reason = f"the configuration cannot be sent to a process: {type(error).__name__}: {error}"
            return self._result(task, Failure("unpicklable", reason), time.time())
        lost = "its processes end before they are given a task"
        for _ in range(_ATTEMPTS):
            with contextlib.ExitStack() as holding:
                try:
                    child = self.prepare()
                    message: dict[str, Any] = {"config": config}
                    if self._lanes is not None and self._device is not None and not self._staged:
                        holding.enter_context(self._lanes.measuring(self._device))
                        message |= {"cores": self._device.cores}
                    mark = child.said()[2]
                    child.send(message)
                except ObjectiveError as error:
                    lost = str(error)
                    continue
                except (ChildEnded, ChildTimeout, ChildGarbled):
                    self._drop()  # it went while it was idle: not the objective's doing
                    continue
                except OSError as error:  # no descriptors or processes left, for now at least
                    lost = f"no process can be started: {error}"
                    self._drop()
                    time.sleep(SLICE_S)
                    continue
                result = self._attend(child, task, _Watch(child, mark, self._rules, task), holding)
            if result.failure is None or result.failure.kind != "worker_lost":
                return result
            lost = result.failure.reason
        return self._result(task, Failure("worker_lost", lost), time.time())

    def rest(self) -> None:
        """After a task: see that nothing of it is left, and have the next child ready."""
        if self._rules.once and self._child is not None:
            old, self._child = self._child, None
            with contextlib.suppress(*_TROUBLE):
                self._child = self._new()  # while the old one goes
            if old.wait(_EXIT_PATIENCE_S) is None:
                old.kill()
        elif self._child is not None and not self._rules.tolerate_leftovers and self._child.processes() > 1:
            self._drop()
        with contextlib.suppress(*_TROUBLE):
            self.prepare()  # else the next task will say

    def close(self) -> None:
        """End the child."""
        self._drop()

    def _attend(self, child: Child, task: Task, watch: _Watch, holding: contextlib.ExitStack) -> TaskResult:
        """See a task through that the child has been given."""
        started_at, clock = time.time(), _Deadline(self._rules.task_timeout)
        scores: tuple[float, ...] | None = None
        failure: Failure | None = None
        metadata: dict[str, Any] = {}
        seconds: float | None = None
        drop = True
        try:
            while True:
                message = self._family.receive(child, clock.left(), watch.look)
                if message["op"] == "done":
                    break
                with clock.paused():
                    answer = self._stage(message, holding, metadata)
                child.send(answer)
        except ChildTimeout:
            child.kill()
            limit = self._rules.task_timeout
            failure = Failure("timeout", f"not done after {limit:g} s; killed with all that it started")
        except ChildEnded as error:
            failure = failure_of(error.outcome)
        except ChildGarbled as error:
            failure = Failure("crashed", f"the objective wrote to the channel of its worker: {error}")
        except TooManyProcesses as error:
            child.kill()
            failure = Failure("crashed", str(error))
        else:
            drop = bool(message["retire"]) and not self._rules.tolerate_leftovers
            seconds = float(message["seconds"])
            if message["failure"] is not None:
                failure = Failure(*message["failure"])
            else:
                scores = tuple(message["scores"])
            self._measured.add(message)
            metadata |= {name: message[name] for name in ("stages", "features") if message[name]}
        result = self._result(
            task, scores if scores is not None else failure, started_at, seconds, watch.stderr(), metadata
        )
        watch.look(last=True)
        if drop and not (self._rules.once and seconds is not None):
            self._drop()
        return result

    def _stage(
        self, message: Mapping[str, Any], holding: contextlib.ExitStack, metadata: dict[str, Any]
    ) -> dict[str, Any]:
        """Answer a child that is about to build or to measure: wait until it may."""
        holding.close()
        if message["stage"] == "build":
            if self._lanes is not None:
                holding.enter_context(self._lanes.building())
            return {}
        known = self._measured.answer(message["features"])
        if known is None and self._lanes is not None and self._device is not None:
            holding.enter_context(self._lanes.measuring(self._device))
            known = self._measured.answer(message["features"])  # while we waited
        if known is not None:
            holding.close()
            metadata["reused"] = True
            return known
        if self._device is None:
            return {}
        return {"cores": self._device.cores}

    def _result(
        self,
        task: Task,
        what: tuple[float, ...] | Failure | None,
        started_at: float,
        seconds: float | None = None,
        stderr: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> TaskResult:
        more: dict[str, Any] = {"attempt": task.attempt} if task.attempt > 1 else {}
        if self._device is not None:
            more["device"] = self._device.name
        return TaskResult(
            number=task.number,
            scores=None if isinstance(what, Failure) else what,
            failure=what if isinstance(what, Failure) else None,
            started_at=started_at,
            seconds=time.time() - started_at if seconds is None else seconds,
            worker=self.name,
            stderr=last_lines(stderr),
            metadata={**(metadata or {}), **more},
        )

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()


def failure_of(outcome: Outcome) -> Failure:
    """The failure that the end of a process is, when it was to return scores."""
    if outcome.end is End.SIGNALLED and outcome.signal is None:
        return Failure("worker_lost", "the process that watched over the objective was killed")
    how = replace(outcome, stderr="").describe()
    if outcome.end is End.OUT_OF_MEMORY:
        return Failure("out_of_memory", f"the process was {how}")
    if outcome.end is End.EXITED:
        return Failure("exited", f"the process {how} before the objective returned")
    if outcome.end is End.TIMED_OUT:
        return Failure("timeout", f"the process was {how}")
    return Failure("crashed", f"the process was {how}")


class ProcessWorker(Worker):
    """A worker whose tasks run in processes of this machine, in `num_workers` slots."""

    _once = False

    def __init__(
        self,
        objective: Any,
        num_workers: int = 1,
        task_timeout: float | None = None,
        num_objectives: int = 1,
        debug: bool = False,
        *,
        lanes: Lanes | None = None,
        preload: Sequence[str] = (),
        memory_bytes: int | None = None,
        max_processes: int = 512,
        tolerate_leftovers: bool = False,
    ) -> None:
        """See Worker; further:

        lanes: the devices to measure on, one task at a time each; without, every task runs as it comes.
        preload: modules that the template imports besides the objective's own, so that no process does.
        memory_bytes: the address space of each process (RLIMIT_AS; not for objectives that use a GPU).
        max_processes: how many processes a task may have at once before it is killed with all of them.
        tolerate_leftovers: go on using a process in which a task left threads or processes behind.
        """
        super().__init__(objective, num_workers, task_timeout, num_objectives, debug)
        self._settings = {"num_objectives": num_objectives, "preload": list(preload)}
        self._lanes = lanes
        self._rules = Rules(self._once, task_timeout, memory_bytes, max_processes, tolerate_leftovers, debug)
        self._family: Family | None = None
        self._threads: list[threading.Thread] = []
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()

    def _open(self) -> None:
        self._family = family = Family(pack(self.objective, self._settings))
        measured = Measured()
        slots = []
        for number in range(self.num_workers):
            device = None if self._lanes is None else self._lanes.device(number)
            slots.append(
                Slot(
                    f"{self.name}-{number}",
                    family,
                    self._rules,
                    lanes=self._lanes,
                    device=device,
                    measured=measured,
                )
            )
        slots[0].prepare()
        self._tasks = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, args=(slot,), name=slot.name, daemon=True) for slot in slots
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, slot: Slot) -> None:
        try:
            with contextlib.suppress(*_TROUBLE):
                slot.prepare()
            while (task := self._tasks.get()) is not None:
                self._done(slot.run(task))
                slot.rest()
        except Closing:
            pass
        finally:
            slot.close()

    def _submit(self, task: Task) -> None:
        self._tasks.put(task)

    def _close(self) -> None:
        if self._family is None:
            return
        self._family.closing.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._family.close()
        self._family = None
