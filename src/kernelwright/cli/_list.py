"""`kernelwright list`: what there is — operators, implementations, backends, workloads."""

from __future__ import annotations

import json
from typing import Any

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("list")(list_)


def list_(
    operator: str | None = typer.Argument(None, help="Only this operator.", metavar="[OPERATOR]"),
    as_json: bool = typer.Option(False, "--json", help="Print it as JSON."),
) -> None:
    """Show operators with their implementations and workloads, and which backends can be used here."""
    from kernelwright import dispatch

    names = dispatch.operators()
    if operator is not None:
        dispatch.spec(operator)  # an unknown name ends here, with the nearest
        names = (operator,)
    operators = {name: _describe(name) for name in names}
    backends = dispatch.backends()
    if as_json:
        typer.echo(json.dumps({"operators": operators, "backends": backends}, indent=1))
        return
    for name, about in operators.items():
        typer.echo(f"{name}({', '.join(about['parameters'])})")
        for one in about["implementations"]:
            state = one["unavailable"] or "available"
            extra = f", keywords {', '.join(one['keywords'])}" if one["keywords"] else ""
            gradient = ", gradient" if one["gradient"] else ""
            typer.echo(f"  {one['name']:<8} backend {one['backend']}, {state}{gradient}{extra}")
        if about["workloads"]:
            typer.echo(f"  workloads {' '.join(about['workloads'])} ({about['dims']})")
            typer.echo(f"  dtypes    {' '.join(about['dtypes'])}")
        else:
            typer.echo("  no spec: nothing to check or tune it with")
    typer.echo("backends")
    for name, reason in backends.items():
        typer.echo(f"  {name:<8} {'available' if reason is None else f'not available: {reason}'}")


def _describe(name: str) -> dict[str, Any]:
    from kernelwright import dispatch
    from kernelwright.ops import dtype_name

    spec = dispatch.spec(name)
    return {
        "parameters": list(dispatch.parameters(name)),
        "implementations": [
            {
                "name": one.name,
                "backend": one.backend,
                "unavailable": one.available(),
                "gradient": one.gradient,
                "keywords": list(one.keywords),
                "tunables": sorted(one.tunables.parameters) if one.tunables is not None else [],
            }
            for one in dispatch.implementations(name)
        ],
        "dims": "" if spec is None else " x ".join(spec.dims),
        "workloads": [] if spec is None else ["x".join(map(str, sizes)) for sizes in spec.shapes],
        "dtypes": [] if spec is None else [dtype_name(dtype) for dtype in spec.dtypes],
    }
