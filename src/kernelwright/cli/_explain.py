"""`kernelwright explain`: which implementation serves a call here, and why the others do not."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kernelwright.ops import OperatorSpec
    from kernelwright.ops import Workload


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("explain")(explain)


def explain(
    operator: str = typer.Argument(..., help="The operator, as in `kernelwright list`.", metavar="OPERATOR"),
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Sizes such as 32x4096 or 32x4096:bf16, more than once. Default: all workloads."),
    ] = None,
    dtype: str = typer.Option("fp32", "--dtype", help="Of shapes that name none: fp32, bf16, fp16."),
    backend: str | None = typer.Option(None, "--backend", help="As if the call said backend=."),
    as_json: bool = typer.Option(False, "--json", help="Print it as JSON."),
) -> None:
    """Say which implementation serves a call here, in which configuration, and why no other does."""
    from kernelwright import dispatch
    from kernelwright.errors import UsageError
    from kernelwright.ops import parse_dtype

    spec = dispatch.spec(operator)
    if spec is None:
        raise UsageError(
            f"{operator} has no spec, so that no call can be made up; "
            f"use kernelwright.explain({operator!r}, ...) from Python with the arguments of yours"
        )
    wanted = parse_dtype(dtype)
    workloads = [spec.parse_workload(text, wanted) for text in shape] if shape else spec.workloads(wanted)
    explanations = [
        (workload, dispatch.explain(operator, **arguments(spec, workload), backend=backend))
        for workload in workloads
    ]
    if as_json:
        typer.echo(json.dumps({w.name: dataclasses.asdict(one) for w, one in explanations}, indent=1))
        return
    grouped: dict[str, list[str]] = {}
    for workload, one in explanations:
        grouped.setdefault(str(one), []).append(workload.name)
    for text, names in grouped.items():
        typer.echo(" ".join(names))
        typer.echo("  " + text.replace("\n", "\n  "))


def arguments(spec: OperatorSpec, workload: Workload) -> dict[str, Any]:
    """Arguments of a workload with memory that is reserved but never touched."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        inputs = spec.inputs(workload, torch.Generator())
    return {
        name: torch.empty(value.shape, dtype=value.dtype) if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }
