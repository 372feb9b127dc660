"""`kernelwright controls search`: the canary, then a search over controls and kernel parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer
from typer import Option

from kernelwright.cli import _controls_target as words

if TYPE_CHECKING:
    from kernelwright.controls import ControlsResult

_EXIT_NO = 1
_EXIT_INTERRUPTED = 130


def search(
    target: words.TargetName,
    workload: words.Workload = None,
    dtype: words.Dtype = None,
    compiler: words.CompilerName = None,
    variant: words.Variant = None,
    unsafe_math: words.UnsafeMath = False,
    no_parameters: words.NoParameters = False,
    constraint: Annotated[
        list[str] | None, Option(help="On a binary, such as 'spill_stores == 0'; again for more.")
    ] = None,
    max_evaluations: Annotated[int | None, Option(min=1, help="Evaluations, at most.")] = None,
    max_time: Annotated[str | None, Option(metavar="TIME", help="For the whole run: 60s, 5m, 1h.")] = None,
    seed: Annotated[int, Option(min=0, help="Where candidates are drawn from.")] = 0,
    optimizer: Annotated[str, Option(help="auto, random, annealing, genetic, …")] = "auto",
    num_workers: Annotated[
        int | None, Option("--num-workers", "-j", min=1, help="Compilations at a time; one measures.")
    ] = None,
    store: Annotated[Path | None, Option(metavar="FILE", help="The store that is to get the run.")] = None,
    no_progress: Annotated[
        bool, Option("--no-progress", help="No progress bar, also at a terminal.")
    ] = False,
    as_json: words.Json = False,
) -> None:
    """Search a compiler's options and the kernel's parameters together, the canary first.

    Every configuration is built, looked at and, unless the same code was measured before, judged by the
    referee against the baseline. `kernelwright search show`, `diagnose` and `resume` know the run.

    Exit codes: 0 done; 1 nothing has a score; 2 bad usage, or the canary failed; 130 interrupted.
    """
    from kernelwright.cli._controls_canary import show_canary
    from kernelwright.cli._time import parse_seconds
    from kernelwright.controls import search_controls
    from kernelwright.search import SearchConfiguration

    found, description = words.read_target(
        target,
        workload=workload,
        dtype=dtype,
        compiler=compiler,
        variant=variant,
        unsafe_math=unsafe_math,
        no_parameters=no_parameters,
    )
    configuration = SearchConfiguration(
        normalize=True,
        seed=seed,
        optimizer=optimizer,
        max_evaluations=max_evaluations,
        max_time=None if max_time is None else parse_seconds(max_time),
    )
    outcome = search_controls(
        found,
        constraints=constraint or (),
        search_config=configuration,
        description=description,
        on_canary=None if as_json else show_canary,
        num_workers=num_workers,
        store=store,
        disable_progress_bar=no_progress or as_json,
    )
    _show(outcome, as_json)


def _show(outcome: ControlsResult, as_json: bool) -> None:
    from kernelwright.cli._search_view import facts
    from kernelwright.cli._search_view import make_console
    from kernelwright.cli._search_view import show_summary
    from kernelwright.search import SearchResult

    # As the store has it: whether the run is finished is known when its last record is written.
    result = SearchResult.from_journal(str(outcome.search.store), outcome.search.run)
    if as_json:
        more: Mapping[str, Any] = {
            "canary": None if outcome.canary is None else outcome.canary.to_json(),
            "counts": outcome.counts.to_json(),
            "store": str(outcome.search.store),
        }
        typer.echo(json.dumps({**facts(result), **more}, indent=1))
    else:
        console = make_console()
        show_summary(console, result)
        console.print(str(outcome.counts), soft_wrap=True, markup=False)
        console.print(f"stored in {outcome.search.store}", soft_wrap=True, markup=False)
        if result.ranked:
            console.print(
                "a score of a search proves nothing: `kernelwright search validate "
                f"{outcome.search.run}` has the referee judge the best again",
                soft_wrap=True,
                markup=False,
            )
    if not result.info.finished:
        typer.echo(f"interrupted; go on with `kernelwright search resume {outcome.search.run}`", err=True)
        raise typer.Exit(_EXIT_INTERRUPTED)
    if not result.ranked:
        raise typer.Exit(_EXIT_NO)
