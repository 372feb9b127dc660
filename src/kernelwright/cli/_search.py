"""`kernelwright search`: search with any objective, and look at what was found."""

from __future__ import annotations

import typer

from kernelwright.cli import _search_minimize
from kernelwright.cli import _search_read
from kernelwright.cli import _search_run
from kernelwright.cli import _search_validate


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Search with any objective, and look at what was found.")
    group.command("run")(_search_run.run)
    group.command("resume")(_search_run.resume)
    group.command("show")(_search_read.show)
    group.command("pareto")(_search_read.pareto)
    group.command("diagnose")(_search_read.diagnose)
    group.command("importance")(_search_read.importance)
    group.command("minimize")(_search_minimize.minimize)
    group.command("validate")(_search_validate.validate)
    group.command("export")(_search_read.export)
    group.command("plot")(_search_read.plot)
    app.add_typer(group, name="search")
