"""`kernelwright controls canary`: do the options arrive?"""

from __future__ import annotations

import json
from typing import Annotated
from typing import TYPE_CHECKING

import typer
from typer import Option

from kernelwright.cli import _controls_target as words

if TYPE_CHECKING:
    from kernelwright.controls import CanaryReport

_EXIT_NO = 1


def canary(
    target: words.TargetName,
    workload: words.Workload = None,
    dtype: words.Dtype = None,
    compiler: words.CompilerName = None,
    variant: words.Variant = None,
    unsafe_math: words.UnsafeMath = False,
    no_parameters: words.NoParameters = False,
    no_measure: Annotated[
        bool, Option("--no-measure", help="Compare binaries alone; needs no quiet machine, no GPU.")
    ] = False,
    as_json: words.Json = False,
) -> None:
    """Prove that compiler options reach what is timed, before a search spends anything on them.

    The baseline's own level, given explicitly, must make the same code; the lowest other code, slower by more
    than 5%; a random configuration must have a score. The stage that lost an option is named.

    Exit codes: 0 they arrive; 1 they do not; 2 bad usage.
    """
    from kernelwright.controls import canary as try_canary

    found, _ = words.read_target(
        target,
        workload=workload,
        dtype=dtype,
        compiler=compiler,
        variant=variant,
        unsafe_math=unsafe_math,
        no_parameters=no_parameters,
    )
    try:
        report = try_canary(found, measure=not no_measure)
    finally:
        getattr(found, "close", lambda: None)()
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=1))
    else:
        show_canary(report)
    if not report.passed:
        raise typer.Exit(_EXIT_NO)


def show_canary(report: CanaryReport) -> None:
    """A line a stage, and what follows."""
    typer.echo(f"canary of {report.target}")
    for stage in report.stages:
        mark = {True: "ok", False: "LOST", None: "-"}[stage.passed]
        typer.echo(f"  {mark:4} {stage.name:9} {stage.said}")
    if report.passed:
        typer.echo("controls arrive: a search is worth its budget")
    else:
        assert report.failed is not None
        typer.echo(f"controls do not arrive: lost at the stage {report.failed.name!r}")
