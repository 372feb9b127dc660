"""Evaluations in the process that searches: nothing is isolated, so that a debugger sees all."""

from __future__ import annotations

import time
import traceback

from kernelwright.search._optimizer import Failure
from kernelwright.search._scores import read_scores
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker


class InlineWorker(Worker):
    """Calls the objective right here, one task at a time. No limit holds, and a crash ends the search."""

    _waiting: Task | None = None

    def start(self) -> None:
        """Nothing is to be started."""

    def submit(self, task: Task) -> None:
        """Keep the task until `results` is called."""
        self._waiting = task

    def results(self, timeout_s: float | None) -> list[TaskResult]:
        """Carry the task out, whatever the time."""
        task, self._waiting = self._waiting, None
        if task is None:
            return []
        started_at, clock = time.time(), time.perf_counter()
        scores, failure, stderr = None, None, ""
        try:
            judged = read_scores(self.objective(task.config), self.num_objectives)
        # What an objective raises is an answer too; its kind and text are kept.
        except Exception as error:  # noqa: BLE001
            failure = Failure("raised", f"{type(error).__name__}: {error}")
            stderr = traceback.format_exc()
        else:
            if isinstance(judged, Failure):
                failure = judged
            else:
                scores = judged
        seconds = time.perf_counter() - clock
        return [TaskResult(task.number, scores, failure, started_at, seconds, "inline", stderr)]

    @property
    def free(self) -> int:
        """One while nothing waits."""
        return 0 if self._waiting else 1

    @property
    def pending(self) -> set[int]:
        """The number of the task that waits."""
        return {self._waiting.number} if self._waiting else set()

    def close(self) -> None:
        """Forget the task that waits."""
        self._waiting = None
