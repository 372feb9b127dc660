"""`kernelwright bench`: operators against their peers, called from Python on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.referee import BenchReport
    from kernelwright.referee import BenchRow

EXIT_SLOWER = 1
"""A row is slower than the better of its peers, or its output is not right."""
_FILE_WIDTH = 140


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench")(bench)


def bench(
    operators: Annotated[list[str], typer.Argument(metavar="OP...", help="Operators, such as rms_norm.")],
    against: Annotated[
        str,
        typer.Option(help="Peers, with commas: eager, compile, module:function, or the path of a peer file."),
    ] = "eager,compile",
    dtype: Annotated[str, typer.Option(help="Dtypes, with commas.")] = "bf16,fp32",
    workload: Annotated[
        list[str] | None, typer.Option(help="Sizes such as 1x4096, for every operator; may be repeated.")
    ] = None,
    mode: Annotated[str, typer.Option(help="cold, warm or both, with commas.")] = "cold,warm",
    regime: Annotated[
        str, typer.Option(help="allocating, preallocated or both, with commas.")
    ] = "allocating,preallocated",
    budget: Annotated[str, typer.Option(help="Clock time of a row in each process, such as 500ms.")] = "1.5s",
    processes: Annotated[int, typer.Option(min=1, help="Fresh processes for each row.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Torch's number of threads.")] = None,
    backend: Annotated[str | None, typer.Option(help="Make our operators use this backend.")] = None,
    seed: Annotated[int, typer.Option(help="Of inputs, orders and intervals.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON object to this file.")] = None,
) -> None:
    """Race operators against their peers, both called from Python under inference_mode.

    The verdict of a row is the one against the better of its peers.

    Exit codes: 0 when every row is right and none is slower than the better of its peers; 1 when one is;
    2 for bad input or a missing thing.
    """
    from rich.console import Console

    from kernelwright.cli._time import parse_seconds
    from kernelwright.referee import bench as run

    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    progress = Console(stderr=True)
    with progress.status("starting") as status:
        report = run(
            operators,
            against=_listed(against),
            workloads=[part for text in workload or [] for part in _listed(text)] or None,
            dtypes=_listed(dtype),
            modes=_listed(mode),
            regimes=_listed(regime),
            budget_s=parse_seconds(budget),
            backend=backend,
            processes=processes,
            threads=threads,
            seed=seed,
            on_start=lambda text: status.update(f"measuring {text}"),
        )
    if out is not None:
        _write(out, report)
    if json:
        typer.echo(_dumped(report))
    else:
        show(report, console)
    if not report.ok:
        raise typer.Exit(EXIT_SLOWER)


def show(report: BenchReport, console: Console) -> None:
    """Print the rows, the geometric means, and what the words mean."""
    from kernelwright import report as form

    ceilings = any(row.ceiling_fraction is not None for row in report.rows)
    for operator, dtype in dict.fromkeys((row.operator, row.dtype) for row in report.rows):
        rows = [row for row in report.rows if (row.operator, row.dtype) == (operator, dtype)]
        names = list(dict.fromkeys(peer.name for row in rows for peer in row.peers))
        table = form.table(
            f"{operator} {dtype}",
            "workload",
            "regime",
            "mode",
            ">ours",
            *(f">{name}" for name in names),
            ">against the better",
            "verdict",
            ">rate",
            *([">of ceiling"] if ceilings else []),
        )
        for row in rows:
            table.add_row(*_cells(row, names, ceilings))
        console.print(table)
        console.print()
    _show_means(report, console)
    _show_notes(report, console)


def _cells(row: BenchRow, names: list[str], ceilings: bool) -> list[str]:
    from kernelwright import report as form

    shown = {
        peer.name: form.duration(peer.contest.baseline_time.median_ns) if peer.contest else peer.status.value
        for peer in row.peers
    }
    better = row.better
    verdict = better.comparison.value if better else row.status.value
    return [
        row.workload,
        row.regime.value,
        row.mode.value,
        form.duration(row.time.median_ns if row.time else None),
        *(shown.get(name, form.NOT_KNOWN) for name in names),
        f"{form.ratio(better.ratio, better.interval)} {better.baseline}" if better else form.NOT_KNOWN,
        form.styled(verdict),
        form.bandwidth(row.bytes_per_second),
        *([form.percent(row.ceiling_fraction)] if ceilings else []),
    ]


def _show_means(report: BenchReport, console: Console) -> None:
    from kernelwright import report as form

    table = form.table("geometric means", "operator", "dtype", "against", ">ratio", ">rows")
    for mean in report.means:
        against = "the better of each row" if mean.against == "better" else mean.against
        table.add_row(mean.operator, mean.dtype, against, form.ratio(mean.ratio), str(mean.rows))
    if report.means:
        console.print(table)
        console.print()


def _show_notes(report: BenchReport, console: Console) -> None:
    """What was measured under which conditions, what could not be, and which backend served."""
    from kernelwright import report as form

    lines = []
    for row in report.rows:
        where = f"{row.operator} {row.workload}:{row.dtype} {row.mode.value} {row.regime.value}"
        if row.reason:
            lines.append(f"{where}: {row.status.value.replace('_', ' ')}: {row.reason}")
    for name, reason in dict.fromkeys(
        (peer.name, peer.reason) for row in report.rows for peer in row.peers if peer.reason
    ):
        lines.append(f"{name}: {reason}")
    for operator, dtype, served in dict.fromkeys(
        (row.operator, row.dtype, _served(row)) for row in report.rows if row.served_by
    ):
        lines.append(f"{operator} {dtype} was served by {served}")
    capped = [row for row in report.rows if row.evidence.get("rotation", {}).get("capped")]
    if capped:
        least = min(row.evidence["rotation"]["llc_multiple"] for row in capped)
        lines.append(
            f"{len(capped)} cold rows rotate less than asked, {least}x the last-level cache at least: "
            "a quarter of the available memory is the limit"
        )
    meanings = report.as_dict()["meaning"]
    used = dict.fromkeys(word.value for row in report.rows for word in (row.mode, row.regime))
    lines += [f"{word}: {meanings[word]}" for word in used]
    if not report.machine.get("ceilings"):
        lines.append("no ceilings are stored for this machine; kernelwright doctor --measure measures them")
    loads = [row.conditions["load_before"] for row in report.rows if row.conditions]
    steals = [row.conditions["steal"] for row in report.rows if row.conditions.get("steal") is not None]
    if loads:
        steal = form.percent(max(steals)) if steals else form.NOT_KNOWN
        lines.append(f"load average {min(loads):.2f} to {max(loads):.2f}, steal at most {steal}")
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _served(row: BenchRow) -> str:
    served = row.served_by
    if "error" in served:
        return str(served["error"])
    tier = f" {served['tier']}" if served.get("tier") else ""
    return f"{served.get('implementation')}{tier} (by {served.get('because')})"


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _dumped(report: BenchReport) -> str:
    import json

    return json.dumps(report.as_dict(), indent=1)


def _write(path: Path, report: Any) -> None:
    from kernelwright.files import write_json

    write_json(path, "kernelwright.bench", 1, report.as_dict())
