"""`kernelwright search show`, `pareto`, `diagnose`, `importance`, `export` and `plot`: what a run found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from kernelwright.search import Evaluation
    from kernelwright.search import SearchResult

_EXIT_NO = 1

_Run = Annotated[
    str, Argument(metavar="[RUN]", help="An id, a folder, a store, a CSV file of results, or `latest`.")
]
_Store = Annotated[Path | None, Option(metavar="FILE", help="The store that has the run.")]
_Json = Annotated[bool, Option("--json", help="Print JSON, nothing else.")]
_Objective = Annotated[int, Option(min=1, help="Which objective, from 1.")]


def show(
    run: _Run = "latest",
    runs: Annotated[bool, Option("--runs", help="List the runs instead.")] = False,
    top: Annotated[int, Option(min=1, help="How many of the best.")] = 10,
    number: Annotated[int | None, Option(help="All of one evaluation, by its number.")] = None,
    failures: Annotated[bool, Option("--failures", help="The failed ones, with reasons and stderr.")] = False,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Show what a run found; also while it goes on, or after it was killed."""
    from kernelwright.cli import _search_view as view
    from kernelwright.cli._search_runs import load
    from kernelwright.files import as_plain

    if runs:
        _show_runs(store, as_json)
        return
    result = load(run, store)
    console = view.make_console()
    if number is not None:
        one = _numbered(result, number)
        if as_json:
            typer.echo(json.dumps(as_plain(result.record(one)), indent=1))
        else:
            view.show_evaluation(console, result, one)
    elif failures:
        if as_json:
            typer.echo(json.dumps(as_plain([result.record(one) for one in result.failed]), indent=1))
        else:
            view.show_failures(console, result, top)
    elif as_json:
        typer.echo(json.dumps(view.facts(result, top), indent=1))
    else:
        view.show_summary(console, result, top)


def pareto(
    run: _Run = "latest",
    reference: Annotated[
        str | None, Option(metavar="VALUES", help="Reference of the hypervolume: 10,2.5.")
    ] = None,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Show the candidates that no other one beats in every objective, and the hypervolume they dominate."""
    from kernelwright.cli import _search_view as view
    from kernelwright.cli._search_runs import load
    from kernelwright.files import as_plain

    result = load(run, store)
    point = None if reference is None else _numbers(reference)
    volume = result.hypervolume(point)
    if as_json:
        typer.echo(json.dumps(as_plain({"hypervolume": volume, "front": result.pareto_front()}), indent=1))
        return
    console = view.make_console()
    title = f"{len(result.front)} of {len(result.ranked)} candidates are on the front"
    console.print(view.results_table(result, result.front, title))
    against = "the worst value of each objective" if point is None else reference
    console.print(f"hypervolume {volume:.6g}, against {against}", soft_wrap=True, markup=False)


def diagnose(run: _Run = "latest", store: _Store = None, as_json: _Json = False) -> None:
    """Say what is wrong with a search, and what to do about it.

    Exit code 1 when the search says nothing: no candidate has a score, or all have the same.
    """
    from kernelwright.cli import _search_view as view
    from kernelwright.cli._search_runs import load
    from kernelwright.files import as_plain

    findings = load(run, store).diagnose()
    if as_json:
        typer.echo(json.dumps(as_plain(findings), indent=1))
    else:
        view.show_findings(view.make_console(), findings)
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(_EXIT_NO)


def importance(
    run: _Run = "latest",
    objective: _Objective = 1,
    seed: Annotated[int, Option(help="Of the permutations.")] = 0,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Show which parameters mattered, with intervals and p-values."""
    from kernelwright.cli import _search_view as view
    from kernelwright.cli._search_runs import load
    from kernelwright.files import as_plain

    found = load(run, store).importance(objective=objective - 1, seed=seed)
    if as_json:
        typer.echo(json.dumps(as_plain(found), indent=1))
    else:
        view.show_importances(view.make_console(), found)


def export(
    run: _Run = "latest",
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="FILE", help="Write there instead of printing.")
    ] = None,
    form: Annotated[
        str | None, Option("--format", help="csv or jsonl; by the file's ending, else csv.")
    ] = None,
    store: _Store = None,
) -> None:
    """Write all evaluations as CSV (generation, score_N, params, norm_score_N, metadata) or JSON lines."""
    from kernelwright import files
    from kernelwright.cli._search_runs import load
    from kernelwright.errors import UsageError

    wanted = form or (out.suffix.removeprefix(".") if out is not None and out.suffix else "csv")
    if wanted not in ("csv", "jsonl"):
        raise UsageError(f"the format is csv or jsonl; got {wanted!r}")
    result = load(run, store)
    text = result.csv() if wanted == "csv" else result.jsonl()
    if out is None:
        typer.echo(text, nl=False)
        return
    files.write_atomic(out, text)
    typer.echo(f"{len(result)} evaluations written to {out}")


def plot(
    run: _Run = "latest",
    out: Annotated[
        Path, Option("--out", "-o", metavar="FILE", help="A .html page, or .png pictures.")
    ] = Path("search.html"),
    kind: Annotated[
        list[str] | None, Option(help="convergence, parallel or pareto; may be repeated; all by default.")
    ] = None,
    objective: _Objective = 1,
    x: Annotated[int, Option("--x", min=1, help="Of the front: the objective across, from 1.")] = 1,
    y: Annotated[int, Option("--y", min=1, help="Of the front: the objective upwards.")] = 2,
    store: _Store = None,
) -> None:
    """Draw how the search went: convergence, parallel coordinates, the Pareto front."""
    from kernelwright import report
    from kernelwright.cli._search_runs import load

    result = load(run, store)
    for path in report.plot(result, out, kind or (), objective=objective - 1, x=x - 1, y=y - 1):
        typer.echo(f"written: {path}")


def _show_runs(store: Path | None, as_json: bool) -> None:
    import datetime

    from kernelwright.cli._search_runs import stores
    from kernelwright.files import as_plain

    found = [(info, path) for path, infos in stores(store) for info in infos]
    found.sort(key=lambda pair: pair[0].created_at)
    if as_json:
        rows = [
            {
                "id": info.id,
                "store": str(path),
                "created_at": info.created_at,
                "finished": info.finished,
                "settings": info.settings,
            }
            for info, path in found
        ]
        typer.echo(json.dumps(as_plain(rows), indent=1))
        return
    for info, _ in found:
        begun = datetime.datetime.fromtimestamp(info.created_at, datetime.UTC)
        state = "finished" if info.finished else "not finished"
        what = f"{info.settings.get('objective')}, {info.settings.get('optimizer')}"
        typer.echo(f"{info.id}  {begun:%Y-%m-%d %H:%M:%S} UTC  {state}  {what}")
    if not found:
        typer.echo("no search was run here; `kernelwright search run FILE` starts one")


def _numbered(result: SearchResult, number: int) -> Evaluation:
    from kernelwright.errors import UnknownNameError

    for one in result.evaluations:
        if one.number == number:
            return one
    raise UnknownNameError("evaluation", str(number), [str(one.number) for one in result.evaluations[:10]])


def _numbers(text: str) -> list[float]:
    from kernelwright.errors import UsageError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"a reference is numbers with commas, such as 10,2.5; got {text!r}") from None
