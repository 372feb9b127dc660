"""No process at all: for debugging."""

from __future__ import annotations

import time
import warnings
from collections import deque

from kernelwright.search import _task
from kernelwright.search._optimizer import Failure
from kernelwright.search._stages import Measured
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker


class SerialWorker(Worker):
    """Evaluates in this process and thread, one task after the other, while `results` is called.

    For a debugger, and for objectives that cannot leave the process. What crashes or hangs takes the search
    along, and `task_timeout` cannot be held (a warning says so). What the objective writes is seen as it is.
    """

    name = "serial"

    def _open(self) -> None:
        if self.task_timeout is not None:
            warnings.warn(
                "SerialWorker cannot end an objective at task_timeout; use MultiProcessWorker for that",
                stacklevel=3,
            )
        self._tasks: deque[Task] = deque()
        self._measured = Measured()

    def _submit(self, task: Task) -> None:
        self._tasks.append(task)

    def _close(self) -> None:
        self._tasks = deque()

    @property
    def free(self) -> int:
        """How many tasks more would start at once; never more than one."""
        return 0 if self._waiting else 1

    def results(self, timeout_s: float | None = None) -> list[TaskResult]:
        """Run the next task, however long that takes, and return its result."""
        if self._waiting:
            self._run(self._tasks.popleft())
        return super().results(timeout_s)

    def _run(self, task: Task) -> None:
        started_at = time.time()
        metadata: dict[str, object] = {}

        def ask(question: dict[str, object]) -> dict[str, object]:
            features = question.get("features")
            known = self._measured.answer(features) if isinstance(features, dict) else None
            metadata.update({"reused": True} if known is not None else {})
            return known or {}

        said = _task.evaluate(self.objective, task.config, self.num_objectives, ask)
        scores = None if said["failure"] is not None else tuple(said["scores"])
        self._measured.add(said)
        metadata |= {name: said[name] for name in ("stages", "features") if said[name]}
        failure = None if scores is not None else Failure(*said["failure"])
        self._done(
            TaskResult(task.number, scores, failure, started_at, said["seconds"], "serial", "", metadata)
        )
