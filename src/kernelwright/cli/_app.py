"""The application: what all commands share — version, typed errors as text, exit codes."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any
from typing import NoReturn

import typer
from typer.core import TyperGroup

from kernelwright.cli import _bench
from kernelwright.cli import _build
from kernelwright.cli import _check
from kernelwright.cli import _controls
from kernelwright.cli import _doctor
from kernelwright.cli import _explain
from kernelwright.cli import _list
from kernelwright.cli import _report
from kernelwright.cli import _search
from kernelwright.cli import _tune
from kernelwright.cli import _winners

EXIT_INPUT = 2
"""Bad input or a missing thing: the text on stderr says which, and what to do next."""
EXIT_INTERRUPTED = 130
"""Ended by Ctrl-C, as a shell reports SIGINT."""
_EXIT_UNSAID = 120
"""As Python's own: it could not write all that it had to say."""

#: In the order of `kernelwright --help`: where am I, what is there, the main job, its neighbours.
_COMMANDS = (_doctor, _list, _explain, _tune, _check, _bench, _search, _controls, _winners, _build, _report)


class _Group(TyperGroup):
    """The commands, with errors raised on purpose shown as their text instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a typed error ends with exit code 2, Ctrl-C with 130."""
        from kernelwright.errors import KernelwrightError

        try:
            return super().invoke(ctx)
        except KernelwrightError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(EXIT_INPUT) from error
        except KeyboardInterrupt as error:
            typer.echo("interrupted", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from error


app = typer.Typer(
    name="kernelwright",
    cls=_Group,
    help="Make an operator fast, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kernelwright {version('kernelwright')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


for _command in _COMMANDS:
    _command.register(app)


def main() -> None:
    """Run the command line of this process and exit with its code."""
    try:
        app()
        code = 0
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            raise
        code = error.code or 0
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process as Python does, short of tearing torch down, which takes a fifth of a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or _EXIT_UNSAID
    os._exit(code)
