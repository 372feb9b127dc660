"""`kernelwright check`: is a kernel right? Ours, or anyone's beside a baseline.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from kernelwright.cli._check_operators import Row


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    targets: Annotated[list[str], Argument(metavar="TARGET...", help="Operators, or one baseline.py.")],
    kernel_package: Annotated[
        str | None, Option(help="With a baseline.py: the kernel's package, found through PYTHONPATH.")
    ] = None,
    op: Annotated[str | None, Option(help="With a baseline.py: the kernel, as PACKAGE.FUNCTION.")] = None,
    atol: Annotated[float | None, Option(help="With a baseline.py: the largest absolute error.")] = None,
    rtol: Annotated[float | None, Option(help="With a baseline.py: the largest relative error.")] = None,
    dtype: Annotated[str | None, Option(help="Of operators: dtypes, with commas; all by default.")] = None,
    workload: Annotated[
        list[str] | None, Option(help="Of operators: sizes such as 1x4096; may be repeated.")
    ] = None,
    budget: Annotated[str, Option(help="With a baseline.py: time for the verdict, such as 60s.")] = "60s",
    threads: Annotated[int | None, Option(min=1, help="Threads of the kernel; torch's number.")] = None,
    seed: Annotated[int | None, Option(help="Of all data; drawn by default, and printed.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Judge whether kernels are right, in processes of their own.

    TARGET is an operator, of which every native kernel that runs here is checked, or a baseline.py with
    --kernel-package and --op.

    Exit codes: 0 passed; 1 not; 2 bad usage; 3 the harness itself could not run.
    """
    from kernelwright.cli._judged import answering
    from kernelwright.cli._target import contract_fields

    with answering(as_json):
        fields = contract_fields(
            targets,
            package=kernel_package,
            op=op,
            atol=atol,
            rtol=rtol,
            operator_options={"--dtype": dtype, "--workload": workload or None},
        )
        if fields is not None:
            passed = _check_contract(fields, budget, threads, seed, as_json)
        else:
            passed = _check_ours(targets, _listed(dtype), workload or None, threads, seed, as_json)
    if not passed:
        from kernelwright.cli._judged import EXIT_NO

        raise typer.Exit(EXIT_NO)


def _check_contract(
    fields: dict[str, Any], budget: str, threads: int | None, seed: int | None, as_json: bool
) -> bool:
    from kernelwright.cli._contract import contract_judge
    from kernelwright.cli._contract import contract_title
    from kernelwright.cli._judged import print_json
    from kernelwright.cli._judged import summary
    from kernelwright.cli._time import parse_seconds

    seconds = parse_seconds(budget)
    with contract_judge(fields, seed=seed, threads=threads, budget_s=seconds, saying="checking") as judge:
        verdict = judge.check()
    if as_json:
        print_json(summary(verdict))
    else:
        from kernelwright.cli._verdict_view import make_console
        from kernelwright.cli._verdict_view import show_verdict

        show_verdict(make_console(), contract_title(fields), verdict)
    return bool(verdict.status == "passed")


def _check_ours(
    operators: Sequence[str],
    dtypes: list[str] | None,
    workloads: list[str] | None,
    threads: int | None,
    seed: int | None,
    as_json: bool,
) -> bool:
    from kernelwright.cli._check_operators import check_operators
    from kernelwright.cli._check_operators import not_checked
    from kernelwright.cli._judged import print_json
    from kernelwright.cli._verdict_view import make_console

    names = list(dict.fromkeys(operators))
    with make_console(stderr=True).status("starting") as status:
        rows = list(
            check_operators(
                names,
                dtypes=dtypes,
                workloads=workloads,
                threads=threads,
                seed=seed,
                on_start=lambda text: status.update(f"checking {text}"),
            )
        )
    left_out = not_checked(names)
    if as_json:
        print_json(as_object(rows, left_out))
    else:
        _show(rows, left_out)
    return all(row.verdict.status == "passed" for row in rows)


def as_object(rows: Sequence[Row], left_out: Sequence[str]) -> dict[str, Any]:
    """All rows under the first verdict that is not `passed`, or under `passed`."""
    first = next((row for row in rows if row.verdict.status != "passed"), None)
    calls = sum(int(row.verdict.evidence.get("runs", 0)) for row in rows)
    return {
        "status": first.verdict.status if first else "passed",
        "reason": (
            f"{first.title}: {first.verdict.reason}"
            if first
            else f"right in {calls} calls of {len(rows)} kernels"
        ),
        "comparison": None,
        "ratio": None,
        "interval": None,
        "times": None,
        "evidence": {"not_checked": list(left_out), "calls": calls},
        "rows": [
            {
                "operator": row.operator,
                "implementation": row.implementation,
                "tier": row.tier,
                "configuration": row.configuration,
                "dtype": row.dtype,
                "workloads": row.workloads,
                "status": row.verdict.status,
                "reason": row.verdict.reason,
                "evidence": row.verdict.evidence,
            }
            for row in rows
        ],
    }


def _show(rows: Sequence[Row], left_out: Sequence[str]) -> None:
    from kernelwright import report as form
    from kernelwright.cli._verdict_view import make_console

    console = make_console()
    made = form.table(None, "operator", "dtype", "kernel", "configuration", "verdict", ">calls", ">seed")
    for row in rows:
        evidence = row.verdict.evidence
        made.add_row(
            row.operator,
            row.dtype,
            f"{row.implementation} {row.tier}",
            row.configuration,
            form.styled(row.verdict.status.value),
            str(evidence.get("runs", form.NOT_KNOWN)),
            str(evidence.get("seed", form.NOT_KNOWN)),
        )
    console.print(made)
    for row in rows:
        if row.verdict.status != "passed":
            console.print(f"{row.title}: {row.verdict.reason}", markup=False, soft_wrap=True)
    for text in left_out:
        console.print(f"not checked: {text}", markup=False, soft_wrap=True)


def _listed(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None
