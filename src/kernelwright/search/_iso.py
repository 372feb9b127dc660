"""One process a task."""

from __future__ import annotations

from kernelwright.search._slots import ProcessWorker


class IsoMultiProcessWorker(ProcessWorker):
    """A new process for every task, forked from a warm template and killed, with its group, after it.

    The template has imported the objective's module (and what `preload` names) and nothing else has happened
    in it, so every task finds the same clean state; it costs a few milliseconds. The next process is forked
    between tasks, not beside a measurement. What the module imports at its top must not start threads or
    initialise a GPU: a fork has neither. Such imports belong inside the objective.
    """

    name = "iso"
    _once = True
