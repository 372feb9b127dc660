"""`kernelwright bench`: operators against their peers, or anyone's kernel against a baseline.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

from kernelwright.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.referee import BenchReport
    from kernelwright.referee import BenchRow

_FILE_WIDTH = 140


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench")(bench)


def bench(
    targets: Annotated[list[str], Argument(metavar="TARGET...", help="Operators, or one baseline.py.")],
    kernel_package: Annotated[
        str | None, Option(help="With a baseline.py: the kernel's package, found through PYTHONPATH.")
    ] = None,
    op: Annotated[str | None, Option(help="With a baseline.py: the kernel, as PACKAGE.FUNCTION.")] = None,
    atol: Annotated[float | None, Option(help="With a baseline.py: the largest absolute error.")] = None,
    rtol: Annotated[float | None, Option(help="With a baseline.py: the largest relative error.")] = None,
    gate: Annotated[
        str | None, Option(help="With a baseline.py: bootstrap (default), or welch: the older gate.")
    ] = None,
    against: Annotated[
        str | None,
        Option(
            help="Of operators: peers, with commas: eager, compile, module:function, or the path of a peer "
            "file; eager,compile by default."
        ),
    ] = None,
    dtype: Annotated[
        str | None, Option(help="Of operators: dtypes, with commas; bf16,fp32 by default.")
    ] = None,
    workload: Annotated[
        list[str] | None, Option(help="Of operators: sizes such as 1x4096; may be repeated.")
    ] = None,
    mode: Annotated[
        str | None, Option(help="cold, warm or both; by default both for operators, else warm.")
    ] = None,
    regime: Annotated[
        str | None,
        Option(help="Of operators: allocating, preallocated or both, with commas; both by default."),
    ] = None,
    backend: Annotated[str | None, Option(help="Of operators: make them use this backend.")] = None,
    budget: Annotated[
        str | None,
        Option(help="Operators: clock time of a row in each process; 1.5s. Else: time for all; 60s."),
    ] = None,
    processes: Annotated[
        int | None, Option(min=1, help="Fresh processes for each row; 1 for operators, else 3.")
    ] = None,
    threads: Annotated[int | None, Option(min=1, help="Torch's number of threads.")] = None,
    seed: Annotated[
        int | None, Option(help="Of inputs, orders and intervals; 0 for operators, else drawn.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object and nothing else.")] = False,
    out: Annotated[Path | None, Option(help="Also write the JSON object to this file.")] = None,
) -> None:
    """Race kernels against what they have to beat, both called from Python.

    TARGET is an operator of ours, raced against its peers under inference_mode; the verdict of a row is the
    one against the better of them. Or it is a baseline.py, with --kernel-package and --op: the kernel is
    checked, then raced against the baseline in fresh processes.

    Exit codes: 0 passed and not slower; 1 not; 2 bad usage; 3 the harness itself could not run.
    """
    from kernelwright.cli._judged import answering
    from kernelwright.cli._judged import EXIT_NO
    from kernelwright.cli._target import contract_fields

    with answering(json):
        fields = contract_fields(
            targets,
            package=kernel_package,
            op=op,
            atol=atol,
            rtol=rtol,
            operator_options={
                "--against": against,
                "--dtype": dtype,
                "--workload": workload or None,
                "--regime": regime,
                "--backend": backend,
            },
        )
        if fields is not None:
            from kernelwright.cli._bench_contract import bench_contract

            document, passed = bench_contract(
                fields,
                modes=_modes(mode, "warm"),
                gate=gate,
                budget=budget or "60s",
                processes=processes or 3,
                threads=threads,
                seed=seed,
                quiet=json,
            )
        else:
            if gate is not None:
                raise UsageError("--gate: only with a baseline.py as TARGET")
            document, passed = _bench_operators(
                targets,
                against=_listed(against or "eager,compile"),
                workloads=[part for text in workload or [] for part in _listed(text)] or None,
                dtypes=_listed(dtype or "bf16,fp32"),
                modes=_modes(mode, "both"),
                regimes=_spelled(regime, ("allocating", "preallocated")),
                budget=budget or "1.5s",
                backend=backend,
                processes=processes or 1,
                threads=threads,
                seed=seed or 0,
                quiet=json,
            )
        if out is not None:
            _write(out, document)
        if json:
            from kernelwright.cli._judged import print_json

            print_json(document)
    if not passed:
        raise typer.Exit(EXIT_NO)


def _bench_operators(
    operators: list[str], *, budget: str, quiet: bool, **options: Any
) -> tuple[dict[str, Any], bool]:
    """Race operators of ours and show it; the JSON object, and whether all is well."""
    from rich.console import Console

    from kernelwright.cli._time import parse_seconds
    from kernelwright.referee import bench as run

    with Console(stderr=True).status("starting") as status:
        report = run(
            operators,
            budget_s=parse_seconds(budget),
            on_start=lambda text: status.update(f"measuring {text}"),
            **options,
        )
    if not quiet:
        console = Console()
        show(report, console if console.is_terminal else Console(width=_FILE_WIDTH))
    return as_object(report), report.ok


def as_object(report: BenchReport) -> dict[str, Any]:
    """The report under the keys that every judgement has; its rows have all contests."""
    from kernelwright.cli._judged import headline

    bad = next((row for row in report.rows if row.status.value != "passed"), None)
    rows = report.rows
    better = [row.better for row in rows if row.better is not None]
    reason = (
        f"{bad.operator} {bad.workload}:{bad.dtype} {bad.mode.value} {bad.regime.value}: {bad.reason}"
        if bad
        else f"{len(rows)} rows are right; each is compared with the better of its peers"
    )
    return {
        "status": bad.status if bad else "passed",
        "reason": reason,
        **headline([] if bad else better),
        "evidence": {"peers": sorted({contest.baseline for contest in better})},
        **report.as_dict(),
    }


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


def _modes(text: str | None, default: str) -> list[str]:
    return _spelled(text or default, ("cold", "warm"))


def _spelled(text: str | None, every: tuple[str, ...]) -> list[str]:
    """Names with commas; `both`, like nothing at all, stands for every one."""
    names = _listed(text or "both")
    return list(every) if names == ["both"] else names


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _write(path: Path, document: Any) -> None:
    from kernelwright.files import as_plain
    from kernelwright.files import write_json

    write_json(path, "kernelwright.bench", 1, as_plain(document))
