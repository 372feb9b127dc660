"""The loop of a search: a free worker gets work, whatever came back is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from kernelwright.errors import EvaluationFailedError
from kernelwright.search._course import Course
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker

#: How long the loop waits for a worker before it looks at the clock and for Ctrl-C.
_WAIT_S = 0.2


@dataclass(frozen=True)
class End:
    """Why a sitting ended, and whether the run has nothing left to do."""

    reason: str
    finished: bool


def drive(
    course: Course,
    worker: Worker,
    *,
    time_left: float | None,
    exit_on_failure: bool,
    stopped: Callable[[], bool],
) -> End:
    """Evaluate until the budget is spent, the space is exhausted, the time is over or someone stops it.

    What is in flight when it is stopped stays asked in the store. Raises EvaluationFailedError with
    `exit_on_failure`, BaselineError, and whatever the optimiser or the worker raise.
    """
    if exit_on_failure:
        course.listeners.append(_stop_at_failure)  # last: all others have heard of it
    give_up_at = None if time_left is None else time.monotonic() + time_left
    while True:
        if stopped():
            return End("interrupted", finished=False)
        if give_up_at is not None and time.monotonic() >= give_up_at:
            return End("max_time", finished=True)
        while worker.free > 0 and (evaluation := course.next()) is not None:
            worker.submit(_task(course, evaluation))
        if not course.open:
            return End("exhausted" if course.exhausted else "max_evaluations", finished=True)
        wait = _WAIT_S if give_up_at is None else max(min(_WAIT_S, give_up_at - time.monotonic()), 0.0)
        for result in worker.results(wait):
            course.tell(_answered(course.open[result.number], result))


def _task(course: Course, evaluation: Evaluation) -> Task:
    return Task(evaluation.number, evaluation.params, evaluation.baseline, course.attempt(evaluation.number))


def _answered(evaluation: Evaluation, result: TaskResult) -> Evaluation:
    metadata: dict[str, Any] = dict(result.metadata)
    return replace(
        evaluation,
        scores=result.scores,
        failure=result.failure,
        started_at=result.started_at,
        seconds=result.seconds,
        worker=result.worker,
        stderr=result.stderr,
        metadata=metadata,
    )


def _stop_at_failure(evaluation: Evaluation) -> None:
    failure = evaluation.failure
    if failure is None:
        return
    said = f"\n{evaluation.stderr.strip()}" if evaluation.stderr.strip() else ""
    raise EvaluationFailedError(
        evaluation,
        f"evaluation {evaluation.number} of {evaluation.params!r} failed ({failure.kind}: {failure.reason}), "
        f"and exit_on_failure ends the search; the run can be resumed{said}",
    )
