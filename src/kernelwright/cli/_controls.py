"""`kernelwright controls`: options of compilers, and proof that they arrive."""

from __future__ import annotations

import typer

from kernelwright.cli import _controls_canary
from kernelwright.cli import _controls_pack
from kernelwright.cli import _controls_search


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Search compilers' options, with proof that they arrive.")
    group.command("canary")(_controls_canary.canary)
    group.command("search")(_controls_search.search)
    group.command("pack")(_controls_pack.pack)
    group.command("verify")(_controls_pack.verify)
    group.command("try")(_controls_pack.try_)
    app.add_typer(group, name="controls")
