"""Every example runs as its reader would run it, with caches of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One set of folders for all examples, so that what one builds or proves is there for the next."""
    root = tmp_path_factory.mktemp("examples")
    folders = {f"KERNELWRIGHT_{name}": str(root / name.lower()) for name in ("CACHE", "DATA", "RUNS")}
    return {**os.environ, **folders}


def _run(name: str, environment: dict[str, str], *arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_use_an_operator(environment: dict[str, str]) -> None:
    said = _run("use_an_operator.py", environment)
    assert "largest difference to torch" in said
    assert "a gradient is wanted and it has none" in said


def test_register_an_implementation(environment: dict[str, str]) -> None:
    said = _run("register_an_implementation.py", environment)
    assert "within the error budget of softmax" in said
    assert "softmax: mine" in said
    assert "did you mean 'mine'?" in said


def test_read_winners_without_any(environment: dict[str, str], tmp_path: Path) -> None:
    said = _run("read_winners.py", {**environment, "KERNELWRIGHT_DATA": str(tmp_path)})
    assert f"none yet in {tmp_path}" in said


@pytest.mark.serial
def test_tune_from_python_and_read_what_was_proven(environment: dict[str, str]) -> None:
    said = _run("tune_from_python.py", environment, "--workload", "64x512", "--budget", "12")
    assert "#1   passed" in said
    outcome = next(line for line in said.splitlines() if line.startswith("64x512:bf16: "))
    report = Path(said.rpartition("report: ")[2].strip())
    assert report.is_file()
    winners = _run("read_winners.py", environment)
    if "is faster than the default" in outcome:
        assert "rms_norm bf16-rows64-hidden512 on this machine" in winners
    else:
        assert "the default stands" in outcome
        assert "none yet" in winners


def _search(name: str, environment: dict[str, str], folder: Path) -> str:
    """What a search says of its best, where it found one."""
    said = _run(name, {**environment, "KERNELWRIGHT_RUNS": str(folder / "runs")}, cwd=folder)
    assert len(list(folder.glob("runs/*/journal.sqlite"))) == 1
    return said


@pytest.mark.serial
def test_search_a_compilers_options(environment: dict[str, str], tmp_path: Path) -> None:
    said = _search("search_single.py", environment, tmp_path)
    assert said.startswith("canary: ")
    assert "of the baseline's time" in said
    assert "kernelwright-controls 1 gcc\n" in said


@pytest.mark.serial
def test_an_objective_over_compiler_options_and_its_canary(
    environment: dict[str, str], tmp_path: Path
) -> None:
    said = _search("controls_objective.py", environment, tmp_path)
    assert said.startswith("forgetful is caught at the stage measure: ")
    assert "canary, sample: a random configuration scored" in said
    assert "of the baseline's time, with" in said


@pytest.mark.serial
def test_search_parameters_and_options_together(environment: dict[str, str], tmp_path: Path) -> None:
    said = _search("search_list.py", environment, tmp_path)
    assert "ms with {'tile': " in said
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 13
    assert (tmp_path / "best.acf").read_text().startswith("-DKERNELWRIGHT_CONTROLS_gcc=1\n")


def test_search_for_a_front(environment: dict[str, str], tmp_path: Path) -> None:
    first, *front = _search("search_multi_objective.py", environment, tmp_path).splitlines()
    assert first == "the front of 60 configurations:"
    assert len(front) > 1
    assert all("times smaller in" in line for line in front)


def test_search_against_the_baseline(environment: dict[str, str], tmp_path: Path) -> None:
    said = _search("search_normalised.py", environment, tmp_path)
    assert "of zlib's own time" in said
    assert "the baseline, 4 times" in said


def test_search_a_nested_space(environment: dict[str, str], tmp_path: Path) -> None:
    said = _search("search_nested.py", environment, tmp_path)
    assert said.startswith("5850 configurations\nbest: ")
    assert "'schedule': {'kind': " in said


def test_search_with_an_async_objective(environment: dict[str, str], tmp_path: Path) -> None:
    assert "60 evaluations of 0.1 s" in _search("search_async.py", environment, tmp_path)


def test_search_on_ray(environment: dict[str, str], tmp_path: Path) -> None:
    said = _search("search_ray.py", environment, tmp_path)
    assert "best: " in said
    assert "places: ['" in said


def test_search_with_mlflow(environment: dict[str, str], tmp_path: Path) -> None:
    assert "best: " in _search("search_mlflow.py", environment, tmp_path)
    assert (tmp_path / "mlflow.db").is_file()


def test_bring_options_to_ptxas(environment: dict[str, str]) -> None:
    said = _run("controls_ptxas.py", environment)
    assert "registers, 0 bytes spilled, occupancy 100%" in said
    assert "capped at 24 registers: 24 registers" in said
    assert "canary, build: --opt-level=0 makes other code" in said or "of the baseline's time" in said


def test_search_nvcc_with_the_parameters_of_a_kernel(environment: dict[str, str]) -> None:
    said = _run("controls_nvcc.py", environment)
    assert "canary, build: -Xptxas=--opt-level=0 makes other code" in said or "of the baseline's time" in said


@pytest.mark.serial
@pytest.mark.parametrize(("name", "compiler"), [("controls_gcc.py", "g++"), ("controls_clang.py", "clang++")])
def test_controls_of_a_cpu_compiler(
    name: str, compiler: str, environment: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} here")
    said = _search(name, environment, tmp_path)
    assert ": the options arrive; " in said
    assert "best: " in said
    assert "baseline: instructions " in said


def test_every_example_is_run_here() -> None:
    tested = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tested] == []
