"""Warm processes that evaluate one task after another."""

from __future__ import annotations

from kernelwright.search._slots import ProcessWorker


class MultiProcessWorker(ProcessWorker):
    """A pool of warm processes: what the objective imported for one task is there for the next.

    A task costs well under a millisecond. A process is replaced, from a template that has loaded the
    objective's module, when it dies, when a task exceeds `task_timeout` (all that it started is killed),
    after an error of memory or of a GPU (after which nothing it says can be trusted), and when a task left
    threads or processes behind.

    An objective's global state stays from one task to the next: where that may change a score, use
    IsoMultiProcessWorker.

    Example:
        with MultiProcessWorker(objective, num_workers=2, task_timeout=10.0) as worker:
            worker.submit(Task(1, {"tile": 64}))
            [result] = worker.results()

    """

    name = "pool"
    _once = False
