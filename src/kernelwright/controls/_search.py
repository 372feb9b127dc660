"""A search over controls: the canary first, then `Search` with precompilation, then the counts."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.controls._canary import canary
from kernelwright.controls._canary import CanaryReport
from kernelwright.controls._counts import Counts
from kernelwright.controls._objective import ControlsObjective
from kernelwright.controls._precompile import ahead_of
from kernelwright.controls._precompile import precompiling_worker
from kernelwright.controls._target import Target
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration
from kernelwright.search import SearchResult

#: Seconds of one evaluation: a build, a check and a race, each with a limit of its own below this.
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class ControlsResult:
    """What a search over controls found. `canary` is None where it was left out."""

    canary: CanaryReport | None
    result: SearchResult
    counts: Counts
    search: Search


def make_search(
    target: Target,
    *,
    constraints: Iterable[str] = (),
    search_config: SearchConfiguration | None = None,
    description: Mapping[str, Any] | None = None,
    **options: Any,
) -> Search:
    """The search over a target's controls, and its parameters where it has some; not started.

    Its journal holds the target's description, so that the run alone is enough to make the target again.
    Scores are compared with the baseline's (`normalize`). `description` stands in for the target's own;
    `options` are those of `Search`.
    """
    objective = ControlsObjective(target, constraints=constraints, description=description)
    return Search(
        objective,
        objective.search_space,
        search_config or SearchConfiguration(normalize=True),
        options.pop("worker_type", None) or precompiling_worker(target),
        **options,
    )


def search_controls(
    target: Target,
    *,
    constraints: Iterable[str] = (),
    search_config: SearchConfiguration | None = None,
    check: bool = True,
    on_canary: Callable[[CanaryReport], None] | None = None,
    num_workers: int | None = None,
    task_timeout: float = _TIMEOUT_S,
    **options: Any,
) -> ControlsResult:
    """Prove that controls arrive, then search them.

    Args:
        target: what is compiled and timed.
        constraints: on the features of a binary, such as `spill_stores == 0`.
        search_config: with `normalize=True` unless given.
        check: False leaves the canary out.
        on_canary: told what the canary found, before the search begins.
        num_workers: how many configurations are compiled at once; `ahead_of` the target unless given.
        task_timeout: seconds of one evaluation.
        options: those of `make_search`, `resume` (a run to go on with) besides.

    Raises CanaryError, before anything is stored, when controls do not arrive; what `Search.start` raises.
    """
    constraints = tuple(constraints)
    resumed = options.pop("resume", None)
    report: CanaryReport | None = None
    if check:
        report = canary(target, constraints=constraints)
        if on_canary is not None:
            on_canary(report)
        report.check()
    calibrate = getattr(target, "calibrate", None)
    if calibrate is not None:
        calibrate()  # once, for all processes that will measure
    close = getattr(target, "close", None)
    if close is not None:
        close()  # they have referees of their own
    search = make_search(target, constraints=constraints, search_config=search_config, **options)
    if resumed is not None:
        search.resume(resumed)
    result = search.start(num_workers or ahead_of(target), task_timeout)
    return ControlsResult(report, result, Counts.of([*result.baselines, *result.evaluations]), search)
