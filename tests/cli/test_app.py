"""What all commands share: version, help, typed errors as text, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kernelwright.cli import _app
from kernelwright.errors import UsageError

COMMAND = [sys.executable, "-m", "kernelwright"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


def _app_with(command: object) -> typer.Typer:
    """An application like ours with one command, `go`, beside another."""
    app = typer.Typer(cls=_app.app.info.cls, pretty_exceptions_enable=False)
    app.command("go")(command)  # type: ignore[type-var]
    app.command("other")(lambda: None)
    return app


def test_version() -> None:
    done = _run("--version")
    assert (done.returncode, done.stdout) == (0, f"kernelwright {version('kernelwright')}\n")


def test_help_names_every_command() -> None:
    done = _run("--help")
    assert done.returncode == 0
    for name in ("doctor", "list", "explain", "tune", "bench", "winners", "build", "report"):
        assert f" {name} " in done.stdout


def test_help_loads_neither_torch_nor_anything_as_large() -> None:
    code = (
        "import sys; from kernelwright.cli import _app\n"
        "try: _app.app(['--help'])\n"
        "except SystemExit: pass\n"
        "large = ('torch', 'numpy', 'scipy', 'plotly', 'jinja2')\n"
        "print('loaded:', [name for name in large if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "loaded: []" in done.stdout


@pytest.mark.serial
def test_help_is_there_at_once() -> None:
    _run("--help")
    started = time.monotonic()
    _run("--help")
    assert time.monotonic() - started < 1.0


def test_an_unknown_command_gets_the_nearest_name() -> None:
    done = _run("tnue")
    assert done.returncode == 2
    assert "tune" in done.stderr
    assert done.stdout == ""


def test_no_command_shows_the_help() -> None:
    done = _run()
    assert done.returncode == 2
    assert "Usage" in done.stdout + done.stderr


def test_an_error_raised_on_purpose_is_its_text_and_exit_code_2() -> None:
    def go() -> None:
        raise UsageError("the budget is -1; give a number above 0")

    result = CliRunner().invoke(_app_with(go), ["go"])
    assert result.exit_code == 2
    assert result.stderr == "error: the budget is -1; give a number above 0\n"
    assert result.stdout == ""


def test_ctrl_c_is_exit_code_130() -> None:
    def go() -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(_app_with(go), ["go"])
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_a_fault_of_ours_is_not_hidden() -> None:
    def go() -> None:
        raise ZeroDivisionError("a fault")

    result = CliRunner().invoke(_app_with(go), ["go"])
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_command_says_its_own_exit_code() -> None:
    def go() -> None:
        raise typer.Exit(1)

    assert CliRunner().invoke(_app_with(go), ["go"]).exit_code == 1


def test_a_real_interrupt_ends_the_process_with_130(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time\n"
        "from kernelwright.cli import _app\n"
        "@_app.app.command('sleep')\n"
        "def sleep():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "sys.argv = ['kernelwright', 'sleep']\n"
        "_app.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert complaint == "interrupted\n"
