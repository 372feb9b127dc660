"""The judge's process imports nothing from PYTHONPATH or the current directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kernelwright
from kernelwright.cli._isolate import candidate_path

TRAPS = ("typer", "rich", "torch", "numpy", "json", "dataclasses", "click")
COMMANDS = {
    "module": [sys.executable, "-m", "kernelwright"],
    "script": [str(Path(sys.executable).with_name("kernelwright"))],
}


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    """A folder of candidates that hide modules which the judge needs."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"print('{name} of the candidate ran')\nraise SystemExit(7)\n")
    return folder


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "--version"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("form", COMMANDS)
def test_nothing_on_pythonpath_runs_in_the_judge(form: str, candidates: Path, tmp_path: Path) -> None:
    if not Path(COMMANDS[form][0]).exists():
        pytest.skip("the console script is not installed beside this interpreter")
    done = run(COMMANDS[form], tmp_path, PYTHONPATH=str(candidates))
    assert (done.returncode, done.stdout) == (0, f"kernelwright {kernelwright.__version__}\n"), done.stderr


def test_nothing_in_the_current_directory_runs_in_the_judge(candidates: Path) -> None:
    done = run(COMMANDS["module"], candidates, PYTHONPATH="")
    assert (done.returncode, done.stdout) == (0, f"kernelwright {kernelwright.__version__}\n"), done.stderr


def test_an_installation_on_pythonpath_is_still_found(tmp_path: Path, candidates: Path) -> None:
    """As in a checkout with PYTHONPATH=src, and an interpreter that has none of the packages."""
    places = [str(Path(kernelwright.__file__).parents[1])]
    places += [entry for entry in sys.path if (Path(entry) / "torch" / "__init__.py").is_file()]
    base = str(Path(sys.base_prefix) / "bin" / "python3")
    if not Path(base).exists():
        pytest.skip("the interpreter without packages is not where it usually is")
    path = os.pathsep.join([*places, str(candidates)])
    done = run([base, "-m", "kernelwright"], tmp_path, PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (0, f"kernelwright {kernelwright.__version__}\n"), done.stderr


def test_arguments_and_exit_codes_go_through(tmp_path: Path, candidates: Path) -> None:
    done = subprocess.run(
        [*COMMANDS["module"], "list", "no such\toperator"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(candidates)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no such" in done.stderr


def test_a_candidate_is_looked_for_on_pythonpath_then_here(
    tmp_path: Path, candidates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["candidates", "", "/not/there", str(candidates)]))
    assert candidate_path() == (str(candidates), str(tmp_path))
    monkeypatch.delenv("PYTHONPATH")
    assert candidate_path() == (str(tmp_path),)


@pytest.mark.serial
def test_it_costs_less_than_60_ms(tmp_path: Path, candidates: Path) -> None:
    def best(**environment: str) -> float:
        times = []
        for _ in range(7):
            started = time.perf_counter()
            run(COMMANDS["script"], tmp_path, **environment)
            times.append(time.perf_counter() - started)
        return min(times)

    assert best(PYTHONPATH=str(candidates)) - best(PYTHONPATH="") < 0.06
