"""`kernelwright doctor`: what this machine is and can do, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.cli._diagnosis import Check
    from kernelwright.machine import Ceilings

EXIT_CANNOT_RUN = 1
"""Something is missing without which no operator can be tuned here."""
_QUICK_S = 11.0
_THOROUGH_S = 90.0
_BUSY_LOAD = 0.5
"""The load average for each thread above which no ceiling can be trusted."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    brief: Annotated[bool, typer.Option("--brief", help="A few lines only.")] = False,
    measure: Annotated[
        bool | None,
        typer.Option(
            "--measure/--no-measure",
            help="Measure this machine's ceilings (again), or never. By default: if none are stored.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what this machine is and can do, what is missing, and how to get it.

    Ceilings (memory bandwidth, arithmetic) are measured when none are stored, or those that are were measured
    on a busy machine that is idle now; that takes about ten seconds.
    Exit code 1 when an operator cannot be tuned here.
    """
    from rich.console import Console

    from kernelwright.cli import _diagnosis
    from kernelwright.cli import _doctor_cuda

    console = Console(highlight=False, soft_wrap=True)
    checks = _diagnosis.checks()
    able = all(check.ok for check in checks if check.required)
    ceilings, notes = _ceilings(measure, able)
    if as_json:
        facts = _facts(checks, ceilings, notes, able)
        facts["gpu_compilers"] = [check.as_dict() for check in _doctor_cuda.gpu_compilers()]
        typer.echo(json.dumps(facts, indent=1))
    elif brief:
        _print_brief(console, checks, ceilings)
    else:
        from kernelwright.cli import _doctor_view

        if ceilings is not None and not trusted(ceilings):
            notes = (
                *notes,
                "the machine was busy when that was measured; when it is idle, doctor does it again",
            )
        compilers = _doctor_cuda.gpu_compilers()
        _doctor_view.show(console, checks, compilers, _diagnosis.extras(), ceilings, notes)
    if not as_json:
        _print_verdict(console, checks)
    if not able:
        raise typer.Exit(EXIT_CANNOT_RUN)


def _ceilings(wanted: bool | None, able: bool) -> tuple[Ceilings | None, tuple[str, ...]]:
    """The stored ceilings, or those that are measured now and stored; and why some are missing."""
    from kernelwright import machine

    stored = None if wanted else machine.load_ceilings()
    if stored is not None and (wanted is False or trusted(stored) or not _idle(os.getloadavg()[0])):
        return stored, tuple(stored.conditions.get("notes", ()))
    if wanted is False:
        return None, ("not measured, as asked; kernelwright doctor --measure does",)
    if machine.current().cpu.emulated:
        return None, ("not measured: this processor is emulated, and the probes would not run on it",)
    if not able:
        return machine.load_ceilings(), (
            "the probes have to be compiled and timed, which cannot be done yet",
        )
    from rich.console import Console

    from kernelwright.cli import _probes

    with Console(stderr=True).status("measuring this machine") as status:
        measurement = _probes.measure(deadline_s=_THOROUGH_S if wanted else _QUICK_S, say=status.update)
    if measurement.ceilings.entries:
        machine.store_ceilings(measurement.ceilings)
    return measurement.ceilings, measurement.notes


def trusted(ceilings: Ceilings) -> bool:
    """Whether the machine was idle enough when they were measured."""
    before = ceilings.conditions.get("load_before")
    return before is None or _idle(before)


def _idle(load: float) -> bool:
    from kernelwright import machine

    return load <= _BUSY_LOAD * machine.current().threads


def _facts(
    checks: Sequence[Check], ceilings: Ceilings | None, notes: Sequence[str], able: bool
) -> dict[str, Any]:
    """Everything as plain data."""
    from dataclasses import asdict

    from kernelwright import machine
    from kernelwright.cli import _diagnosis

    here = machine.current()
    return {
        "able": able,
        "machine": here.as_dict(),
        "compilers": [{**asdict(one), "path": str(one.path)} for one in here.compilers],
        "gpus": [asdict(one) for one in here.gpus],
        "checks": [check.as_dict() for check in checks],
        "extras": [
            {"name": extra.name, "installed": extra.installed, "distributions": dict(extra.distributions)}
            for extra in _diagnosis.extras()
        ],
        "ceilings": [asdict(entry) for entry in ceilings.entries] if ceilings else [],
        "ceilings_measured_under": dict(ceilings.conditions) if ceilings else None,
        "notes": list(notes),
    }


def _print_brief(console: Console, checks: Sequence[Check], ceilings: Ceilings | None) -> None:
    from kernelwright import machine
    from kernelwright.report import bandwidth
    from kernelwright.report import size
    from kernelwright.report import throughput

    here = machine.current()
    found = {check.name: check.found for check in checks}
    console.print(
        f"{here.cpu.model}, {here.cores} cores, {here.threads} threads, {size(here.memory_bytes)} memory, "
        f"tier {machine.available_tiers()[-1]}"
    )
    console.print(f"{found['C++ compiler']}, torch {found['torch']}, ninja {found['ninja']}")
    copy = ceilings.copy("DRAM") if ceilings else None
    peak = ceilings.flops("fp32") if ceilings else None
    if copy and peak:
        console.print(
            f"memory copies at {bandwidth(copy.value)}, fp32 at {throughput(peak.value)} "
            f"({copy.threads} threads, measured {copy.when})"
        )
    else:
        console.print("ceilings have not been measured; kernelwright doctor --measure does")


def _print_verdict(console: Console, checks: Sequence[Check]) -> None:
    """What is missing, and how to get it."""
    from rich.markup import escape

    for check in checks:
        if check.ok or not check.required:
            continue
        console.print(f"[red]missing[/] {check.name}: {escape(check.found)}")
        console.print(f"        {escape(check.remedy or '')}")
    if all(check.ok for check in checks if check.required):
        console.print("[green]ready[/]: operators can be tuned here (kernelwright tune rms_norm)")
    else:
        console.print("[red]not ready[/]: no operator can be tuned here until that is mended")
