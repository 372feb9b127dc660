"""An objective called through a worker: one evaluation at a time, with the worker's limits and isolation."""

from __future__ import annotations

from typing import Any

from kernelwright.search._optimizer import Failure
from kernelwright.search._worker import Task
from kernelwright.search._worker import Worker


class Through:
    """A worker's objective as a function: scores of a configuration, or its failure.

    With IsoMultiProcessWorker, each call is a process of its own.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._count = 0

    def __call__(self, config: Any) -> tuple[float, ...] | Failure:
        """The scores of one configuration, or its failure."""
        self._count += 1
        self._worker.submit(Task(self._count, config, baseline=config == {}))
        while True:
            for done in self._worker.results(None):
                if done.number == self._count:
                    return done.scores if done.scores is not None else done.failure or Failure("raised")
