"""`kernelwright search run` and `resume`: search with the objective of a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from kernelwright.cli._search_file import Job
    from kernelwright.search import Search
    from kernelwright.search import SearchConfiguration

_EXIT_NO = 1
_EXIT_INTERRUPTED = 130

_Most = Annotated[int | None, Option(min=1, help="Evaluations, at most.")]
_Time = Annotated[str | None, Option(metavar="TIME", help="For the whole run: 60s, 5m, 1h.")]
_Generations = Annotated[int | None, Option(min=1, help="Generations of --pool-size evaluations.")]
_Workers = Annotated[int | None, Option("--num-workers", "-j", min=1, help="Evaluations at a time.")]
_Timeout = Annotated[str | None, Option(metavar="TIME", help="For one evaluation, such as 30s.")]
_WorkerType = Annotated[str | None, Option(help="iso (a process each), pool (warm processes), ray or async.")]
_Tracker = Annotated[str | None, Option(help="disabled, loguru or mlflow.")]
_Dump = Annotated[Path | None, Option(metavar="FILE", help="Write results there, .csv or .jsonl.")]
_Cache = Annotated[Path | None, Option(metavar="DIR", help="Keep results for other runs.")]
_Store = Annotated[Path | None, Option(metavar="FILE", help="The store that has the run, or is to get it.")]
_Quiet = Annotated[bool, Option("--no-progress", help="No progress bar, also at a terminal.")]
_Fail = Annotated[bool, Option("--exit-on-failure", help="Stop at the first evaluation that fails.")]
_Debug = Annotated[bool, Option("--debug", help="Show what the objective writes.")]
_Json = Annotated[bool, Option("--json", help="Print one JSON object, nothing else.")]


def run(
    file: Annotated[Path, Argument(metavar="FILE", help="A Python file with objective and search_space.")],
    max_evaluations: _Most = None,
    max_time: _Time = None,
    generations: _Generations = None,
    pool_size: Annotated[int | None, Option(min=1, help="Evaluations of a generation.")] = None,
    cull_size: Annotated[int | None, Option(min=0, help="Of these, how many have no offspring.")] = None,
    mutate_rate: Annotated[float | None, Option(help="Chance of each parameter to change.")] = None,
    num_objectives: Annotated[int | None, Option(min=1, help="Scores that the objective returns.")] = None,
    problem_type: Annotated[
        list[str] | None, Option(help="min or max; once for all, or once an objective.")
    ] = None,
    normalize: Annotated[
        bool | None, Option("--normalize/--no-normalize", help="Divide scores by the baseline's.")
    ] = None,
    seed: Annotated[int | None, Option(min=0, help="Same seed, same candidates with one worker.")] = None,
    optimizer: Annotated[str | None, Option(help="auto, random, annealing, genetic, nsga2, …")] = None,
    num_workers: _Workers = None,
    task_timeout: _Timeout = None,
    worker_type: _WorkerType = None,
    tracker: _Tracker = None,
    dump_results: _Dump = None,
    cache_folder: _Cache = None,
    store: _Store = None,
    no_progress: _Quiet = False,
    exit_on_failure: _Fail = False,
    debug: _Debug = False,
    as_json: _Json = False,
) -> None:
    """Search with the objective of FILE.

    FILE defines `objective` (or `objective_function`) and `search_space`, and may define search_config,
    worker_type, tracker_config, num_workers, task_timeout, dump_results, cache_folder, store,
    exit_on_failure, debug. Options go before what it says.

    Exit codes: 0 done; 1 no candidate has a score; 2 bad usage; 130 interrupted.
    """
    from kernelwright.cli._search_file import load

    job = load(file)
    overrides = _stated(
        max_evaluations=max_evaluations,
        max_time=_seconds(max_time),
        generations=generations,
        pool_size=pool_size,
        cull_size=cull_size,
        mutate_rate=mutate_rate,
        num_objectives=num_objectives,
        problem_type=_directions(problem_type),
        normalize=normalize,
        seed=seed,
        optimizer=optimizer,
    )
    options = _options(
        worker_type,
        tracker,
        dump_results,
        cache_folder,
        store,
        no_progress or as_json,
        exit_on_failure,
        debug,
    )
    search = job.search(job.configuration(overrides), options)
    _go(search, job.started(_started(num_workers, task_timeout)), as_json)


def resume(
    run: Annotated[str, Argument(metavar="[RUN]", help="An id, a folder, or `latest`.")] = "latest",
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="The objective's file; the run knows it.")
    ] = None,
    max_evaluations: _Most = None,
    max_time: _Time = None,
    generations: _Generations = None,
    num_workers: _Workers = None,
    task_timeout: _Timeout = None,
    worker_type: _WorkerType = None,
    tracker: _Tracker = None,
    dump_results: _Dump = None,
    cache_folder: _Cache = None,
    store: _Store = None,
    no_progress: _Quiet = False,
    exit_on_failure: _Fail = False,
    debug: _Debug = False,
    as_json: _Json = False,
) -> None:
    """Go on with a run that was interrupted, killed, or is to have a larger budget.

    Nothing that finished is evaluated again; what was in flight is. The run keeps its configuration, except
    for a budget that is given; workers and limits are those of the file or of the options.
    """
    from kernelwright.cli._search_file import job_of_target
    from kernelwright.cli._search_file import load
    from kernelwright.cli._search_runs import locate

    found = locate(run, store)
    info = _info(found.store, found.run)
    job = (
        job_of_target(info)
        if file is None and "target" in info.settings
        else load(file or objective_file(info))
    )
    budget = _stated(max_evaluations=max_evaluations, max_time=_seconds(max_time), generations=generations)
    options = _options(
        worker_type,
        tracker,
        dump_results,
        cache_folder,
        None,
        no_progress or as_json,
        exit_on_failure,
        debug,
    )
    options["store"] = found.store
    search = job.search(_kept(job, info.settings, budget), options).resume(found.run)
    _go(search, job.started(_started(num_workers, task_timeout)), as_json)


def objective_file(info: Any) -> Path:
    """The file that the run's objective came from. Raises UsageError where it is not known or gone."""
    from kernelwright.errors import UsageError

    name = info.settings.get("objective_file")
    if not name or not Path(name).is_file():
        what = f"{name} is not there any more" if name else "the run does not know its objective's file"
        raise UsageError(f"{what}; give it: kernelwright search resume {info.id} FILE")
    return Path(name)


def _go(search: Search, arguments: Mapping[str, Any], as_json: bool) -> None:
    from kernelwright.cli._search_view import facts
    from kernelwright.cli._search_view import make_console
    from kernelwright.cli._search_view import show_summary
    from kernelwright.search import SearchResult

    search.start(**arguments)
    # As the store has it: whether the run is finished is known when its last record is written.
    result = SearchResult.from_journal(str(search.store), search.run)
    if as_json:
        typer.echo(json.dumps({**facts(result), "store": str(search.store)}, indent=1))
    else:
        console = make_console()
        show_summary(console, result)
        for one in result.diagnose():
            if one.severity != "note":
                console.print(f"{one.severity}: {one.text}; {one.remedy}", soft_wrap=True, markup=False)
        console.print(f"stored in {search.store}", soft_wrap=True, markup=False)
    if not result.info.finished:
        typer.echo(f"interrupted; go on with `kernelwright search resume {search.run}`", err=True)
        raise typer.Exit(_EXIT_INTERRUPTED)
    if not result.ranked:
        raise typer.Exit(_EXIT_NO)


def _info(store: Path, run: str) -> Any:
    from kernelwright.search import read_runs

    return next(info for info in read_runs(store) if info.id == run)


def _kept(job: Job, settings: Mapping[str, Any], budget: Mapping[str, Any]) -> SearchConfiguration:
    """The configuration that the run was begun with, under a new budget where one is given."""
    from kernelwright.search import SearchConfiguration

    names = {one.name for one in dataclasses.fields(SearchConfiguration)}
    kept = {name: value for name, value in settings.items() if name in names}
    if isinstance(kept.get("problem_type"), list):
        kept["problem_type"] = tuple(kept["problem_type"])
    # Stored limits follow from each other; a new one must not be held back by what followed from the old.
    if "max_evaluations" in budget or "generations" in budget:
        kept.update(max_evaluations=None, generations=None)
    mine = job.configuration({})
    if not isinstance(mine.optimizer, str) and mine.optimizer_name == kept.get("optimizer"):
        kept["optimizer"] = mine.optimizer
        kept["optimizer_options"] = mine.optimizer_options
    return SearchConfiguration(**{**kept, **budget})


def _options(
    worker_type: str | None,
    tracker: str | None,
    dump_results: Path | None,
    cache_folder: Path | None,
    store: Path | None,
    quiet: bool,
    exit_on_failure: bool,
    debug: bool,
) -> dict[str, Any]:
    return _stated(
        worker_type=worker_type,
        tracker_config=tracker,
        dump_results=dump_results,
        cache_folder=cache_folder,
        store=store,
        disable_progress_bar=quiet or None,
        exit_on_failure=exit_on_failure or None,
        debug=debug or None,
    )


def _started(num_workers: int | None, task_timeout: str | None) -> dict[str, Any]:
    return _stated(num_workers=num_workers, task_timeout=_seconds(task_timeout))


def _stated(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _seconds(text: str | None) -> float | None:
    from kernelwright.cli._time import parse_seconds

    return None if text is None else parse_seconds(text)


def _directions(given: list[str] | None) -> Any:
    if not given:
        return None
    return given[0] if len(given) == 1 else tuple(given)
