"""`kernelwright search minimize`: the fewest settings that keep the win."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from kernelwright.search import Ablation

_EXIT_NO = 1


def minimize(
    run: Annotated[str, Argument(metavar="[RUN]", help="An id, a folder, or `latest`.")] = "latest",
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="The objective's file; the run knows it.")
    ] = None,
    number: Annotated[int | None, Option(help="Of this evaluation instead of the best.")] = None,
    keep: Annotated[float, Option(help="The share of the win to keep.")] = 0.95,
    objective: Annotated[int, Option(min=1, help="Which objective, from 1.")] = 1,
    max_evaluations: Annotated[int | None, Option(min=6, help="Evaluations, at most.")] = None,
    task_timeout: Annotated[
        str | None, Option(metavar="TIME", help="For one evaluation, such as 30s.")
    ] = None,
    worker_type: Annotated[
        str | None, Option(help="iso (a process each), pool (warm processes), ray or async.")
    ] = None,
    seed: Annotated[int, Option(help="Of the order of evaluations.")] = 0,
    store: Annotated[Path | None, Option(metavar="FILE", help="The store that has the run.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object, nothing else.")] = False,
) -> None:
    """Find the fewest settings of the best candidate that keep its win.

    Each set of settings is evaluated in turns with the best candidate and the reference (the baseline where
    everything may be left out, else the default), again and again until it is decided. Exit code 1 when there
    is no win to keep.
    """
    from kernelwright.cli import _search_view as view
    from kernelwright.cli._search_file import load
    from kernelwright.cli._search_file import worker_class
    from kernelwright.cli._search_read import _numbered
    from kernelwright.cli._search_run import _info
    from kernelwright.cli._search_run import _started
    from kernelwright.cli._search_run import objective_file
    from kernelwright.cli._search_runs import locate
    from kernelwright.files import as_plain
    from kernelwright.search import IsoMultiProcessWorker
    from kernelwright.search import SearchResult
    from kernelwright.search import Through

    located = locate(run, store)
    result = SearchResult.from_journal(located.store, located.run)
    job = load(file or objective_file(_info(located.store, located.run)))
    made = worker_class(worker_type or job.worker_type or IsoMultiProcessWorker)(
        job.objective,
        num_objectives=result.num_objectives,
        **{**job.started(_started(None, task_timeout)), "num_workers": 1},
    )
    console = view.make_console()

    def tell(step: Ablation) -> None:
        if not as_json and console.is_terminal:
            word = "keeps" if step.keeps else "loses"
            console.print(f"{len(step.settings)} settings: {word} the win", markup=False)

    with made:
        found = result.minimize(
            Through(made),
            job.search_space,
            evaluation=None if number is None else _numbered(result, number),
            objective=objective - 1,
            keep=keep,
            max_evaluations=max_evaluations,
            seed=seed,
            on_step=tell,
        )
    if as_json:
        typer.echo(json.dumps(as_plain(found), indent=1))
    else:
        view.show_minimized(console, found)
    if not found.won:
        raise typer.Exit(_EXIT_NO)
