"""`kernelwright report RUN`: write a run's report again, and say where it is."""

from __future__ import annotations

import json

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("report")(report)


def report(
    run: str = typer.Argument("latest", help="A run's id, its folder, or `latest`.", metavar="RUN"),
    as_json: bool = typer.Option(False, "--json", help="Print the paths as JSON."),
) -> None:
    """Write the report of a tuning run again from its journal, and say where it is."""
    from kernelwright import report as room

    folder = room.locate(run)
    path = room.write(folder)
    if as_json:
        typer.echo(
            json.dumps({"run": str(folder), "report": str(path), "results": str(folder / "results.csv")})
        )
        return
    typer.echo(f"report   {path}")
    typer.echo(f"results  {folder / 'results.csv'}")
