"""An objective called through a worker: one evaluation at a time, with the worker's limits and isolation."""

from __future__ import annotations

from typing import Any

from kernelwright.search import _task
from kernelwright.search._optimizer import Failure
from kernelwright.search._stages import IDENTITY
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


def unshared(objective: Any) -> Any:
    """The objective, measured whenever it is called.

    A worker gives what has the same identity the scores that it has already. Who compares scores with scores
    needs each to be a measurement of its own.
    """
    return _Unshared(objective) if _task.is_staged(objective) else objective


class _Unshared:
    """A staged objective without an identity."""

    def __init__(self, objective: Any) -> None:
        self._objective = objective

    def build(self, config: Any) -> Any:
        build = getattr(self._objective, "build", None)
        return config if build is None else build(config)

    def features(self, built: Any) -> dict[str, Any]:
        features = getattr(self._objective, "features", None)
        found = {} if features is None else dict(features(built))
        found.pop(IDENTITY, None)
        return found

    def measure(self, built: Any) -> Any:
        return self._objective.measure(built)
