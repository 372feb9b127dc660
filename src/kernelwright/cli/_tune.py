"""`kernelwright tune`: the main job, with live progress and a table of what was proven."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.tuning import RunRecord


#: Columns of what is not a terminal: the table fits.
_PIPE_WIDTH = 120


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tune")(tune)


def tune(
    operator: Annotated[str | None, Argument(metavar="OP", help="The operator; not with --resume.")] = None,
    workload: Annotated[
        list[str] | None, Option("--workload", "-w", help="Sizes such as 4096x4096; may be repeated.")
    ] = None,
    dtype: Annotated[str | None, Option(help="bf16 unless named; fp32, fp16.")] = None,
    backend: Annotated[list[str] | None, Option(help="What may take part; may be repeated.")] = None,
    budget: Annotated[str, Option(help="Time for the whole run: 60s, 5m, 1h.")] = "60s",
    seed: Annotated[int, Option(help="The same seed asks the same candidates.")] = 0,
    resume: Annotated[str | None, Option(metavar="RUN", help="Continue an interrupted run.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the run's record as JSON, nothing else.")] = False,
) -> None:
    """Find the configuration of OP that is proven right and faster here, or learn that the default stands."""
    from rich.console import Console

    from kernelwright.cli._time import parse_seconds
    from kernelwright.cli._tune_view import make_view
    from kernelwright.tuning import tune as run_tuning

    seconds = parse_seconds(budget)
    console = Console(stderr=as_json, highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    with make_view(console, quiet=as_json) as view:
        try:
            record = run_tuning(
                operator,
                workloads=workload,
                dtype=dtype,
                backends=backend,
                budget_s=seconds,
                seed=seed,
                run=resume,
                on_event=view.listen,
            )
        except KeyboardInterrupt:
            view.stop()
            if view.run is not None:
                typer.echo(f"interrupted; continue with `kernelwright tune --resume {view.run.id}`", err=True)
            raise
    report = _write_report(record)
    if as_json:
        typer.echo(json.dumps(_facts(record), indent=1))
        return
    _print_results(console, record, report)


def _facts(record: RunRecord) -> dict[str, Any]:
    """The record as what JSON knows."""
    from kernelwright.files import as_plain

    return {**as_plain(record), "artifacts": record.artifacts, "failures": record.failures}


def _write_report(record: RunRecord) -> Path:
    from kernelwright import report

    return report.write(record.folder)


def _print_results(console: Console, record: RunRecord, page: Path) -> None:
    from kernelwright.cli._tune_view import results_table
    from kernelwright.report import configuration
    from kernelwright.report import elapsed

    console.print(results_table(record))
    for result in record.results:
        console.print(f"{result.workload}: {result.outcome}", soft_wrap=True, markup=False)
        if result.winner is not None:
            default = record.default_configurations.get(result.implementation or "")
            changed = configuration(result.winner, default)
            console.print(f"  {result.implementation}: {changed}", soft_wrap=True, markup=False)
    failures = ", ".join(f"{count} {status}" for status, count in record.failures.items()) or "none"
    reused = sum(one.reused is not None for one in record.evaluations)
    console.print(
        f"{len(record.evaluations)} judged: {record.artifacts} distinct artifacts, {reused} reused; "
        f"failures: {failures}; {elapsed(record.elapsed_s)}",
        soft_wrap=True,
    )
    stored = sum(result.stored for result in record.results)
    if stored:
        evidence = f"`kernelwright winners show {record.operator}` has the evidence"
        console.print(f"winners stored: {stored}; {evidence}", soft_wrap=True, markup=False)
    console.print(f"report: {page}", soft_wrap=True, markup=False)
