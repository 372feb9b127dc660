"""The base of all workers: tasks in, typed results out."""

from __future__ import annotations

import queue
import time
from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelwright import process
from kernelwright.errors import UsageError
from kernelwright.search import _objective
from kernelwright.search._optimizer import Failure

_OUR_FRAMES = tuple(
    f'  File "{Path(file).parent}/{start}' for file, start in ((process.__file__, ""), (__file__, "_task"))
)
_TAIL_LINES = 20
_TAIL_CHARACTERS = 4000


@dataclass(frozen=True)
class Task:
    """One evaluation to run: `config` is what the objective gets; `attempt` counts from 1."""

    number: int
    config: Any
    baseline: bool = False
    attempt: int = 1


@dataclass(frozen=True)
class TaskResult:
    """What came of a task. Of `scores` and `failure` exactly one is there.

    `seconds` is the time spent in the objective, as far as known, `started_at` the time of day (as
    `time.time`) when it began, `worker` who ran it, `stderr` its last lines there. `metadata` may have
    `device`, `node`, `stages` (seconds of each), `features`, `attempt`.
    """

    number: int
    scores: tuple[float, ...] | None
    failure: Failure | None
    started_at: float
    seconds: float
    worker: str
    stderr: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Worker(ABC):
    """Evaluates an objective for many configurations.

    The contract that every worker keeps:

    - The objective is called with the configuration alone. It returns a number, or a tuple of
      `num_objectives` numbers; anything else, NaN, infinities and INVALID_SCORE are failures. No objective
      can raise, crash or hang its way out of the worker: each task gets exactly one result, with a typed
      failure at worst. Kinds: `raised`, `build_failed` and `skipped` (staged objectives), `invalid_score`,
      `wrong_arity`, `unpicklable`, `timeout`, `crashed`, `out_of_memory`, `exited`, `worker_lost`.
    - `task_timeout` is in seconds, counts from when the objective is called (not what it waits for a lane),
      and ends the task with all that it started. SerialWorker alone, which has no process, cannot do that.
    - `free` tasks more would start at once; more may be submitted, and wait.
    - After `close` no process and no thread is left.

    `debug` shows what the objective writes, as it does, on our standard error. Methods are called from one
    thread.
    """

    #: What results and messages call it.
    name = "worker"

    def __init__(
        self,
        objective: Any,
        num_workers: int = 1,
        task_timeout: float | None = None,
        num_objectives: int = 1,
        debug: bool = False,
    ) -> None:
        """Raises ObjectiveError for what is no objective, UsageError for numbers that make no sense."""
        if num_workers < 1:
            raise UsageError(f"num_workers is {num_workers}; one at least is needed")
        if task_timeout is not None and not task_timeout > 0:
            raise UsageError(
                f"task_timeout is {task_timeout!r} s; it has to be above zero, or None for no limit"
            )
        if num_objectives < 1:
            raise UsageError(f"num_objectives is {num_objectives}; one at least is needed")
        _objective.check(objective)
        self.objective = objective
        self.num_workers = num_workers
        self.task_timeout = task_timeout
        self.num_objectives = num_objectives
        self.debug = debug
        self._running = False
        self._waiting: set[int] = set()
        self._results: queue.SimpleQueue[TaskResult] = queue.SimpleQueue()

    # -- what a search calls -------------------------------------------------------------------------------

    def start(self) -> None:
        """Get ready; raises ObjectiveError when the objective cannot be had where it is to run."""
        if not self._running:
            try:
                self._open()
            except BaseException:
                self._close()
                raise
            self._running = True

    def submit(self, task: Task) -> None:
        """Take a task; it starts at once if one is `free`."""
        if not self._running:
            raise UsageError(f"{type(self).__name__} takes no tasks before start() and after close()")
        if task.number in self._waiting:
            raise UsageError(f"task {task.number} is running already")
        self._waiting.add(task.number)
        self._submit(task)

    def results(self, timeout_s: float | None = None) -> list[TaskResult]:
        """Wait for a result, up to `timeout_s`, and return all that are there; [] when nothing is pending."""
        found: list[TaskResult] = []
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._waiting:
            try:
                if found:
                    result = self._results.get_nowait()
                else:
                    left = None if deadline is None else max(0.0, deadline - time.monotonic())
                    result = self._results.get(timeout=left)
            except queue.Empty:
                break
            self._waiting.discard(result.number)
            found.append(result)
        return found

    @property
    def free(self) -> int:
        """How many tasks more would start at once."""
        return max(0, self.num_workers - len(self._waiting))

    @property
    def pending(self) -> set[int]:
        """The numbers of the tasks whose results have not been returned."""
        return set(self._waiting)

    def close(self) -> None:
        """End everything, tasks that run included; their results are not given."""
        if self._running:
            self._running = False
            self._close()
            self._waiting.clear()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what each worker does -----------------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Start processes."""

    @abstractmethod
    def _submit(self, task: Task) -> None:
        """Take a task, without waiting for it; `_done` is called with its result, from any thread."""

    @abstractmethod
    def _close(self) -> None:
        """End what `_open` started, also if that was only half done."""

    def _done(self, result: TaskResult) -> None:
        self._results.put(result)


def last_lines(text: str) -> str:
    """The last lines of an output, as a result keeps them: a dump of a crash without our own frames."""
    lines = [line for line in text.rstrip().splitlines() if not line.startswith(_OUR_FRAMES)]
    return "\n".join(lines[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]
