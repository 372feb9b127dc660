"""`kernelwright controls canary` and `controls search`, on targets of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli._app import app

CONTROLS = Path(__file__).parent.parent / "controls"
TARGET = f"""
import sys
sys.path.append({str(CONTROLS)!r})
from pathlib import Path
from planted_targets import PlantedTarget

target = PlantedTarget(Path(__file__).parent, "FAULT")
"""


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))


def _target(folder: Path, fault: str = "") -> str:
    path = folder / "planted_file.py"
    path.write_text(TARGET.replace("FAULT", fault))
    return str(path)


def _call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["controls", *words])
    return done.exit_code, done.output


def test_canary_says_that_controls_arrive(tmp_path: Path) -> None:
    code, said = _call("canary", _target(tmp_path))
    assert code == 0, said
    assert "ok   measure   -O0 takes 3.00 of the baseline's time" in said
    assert said.endswith("controls arrive: a search is worth its budget\n")


def test_canary_names_the_stage_that_lost_them(tmp_path: Path) -> None:
    code, said = _call("canary", _target(tmp_path, "times what it loaded first"))
    assert code == 1
    assert "LOST measure" in said
    assert "lost at the stage 'measure'" in said
    code, said = _call("canary", _target(tmp_path, "ignores its controls"), "--json")
    assert code == 1
    assert [one["name"] for one in json.loads(said)["stages"]] == ["baseline", "controls", "build"]


def test_canary_of_an_operator_compares_binaries(tmp_path: Path) -> None:
    code, said = _call("canary", "softmax", "--compiler", "gcc", "--no-parameters", "--no-measure")
    assert code == 0, said
    assert "-O0 makes other code" in said
    assert "-    measure   nothing is timed here" in said


def test_a_search_is_refused_where_the_canary_fails(tmp_path: Path) -> None:
    code, said = _call("search", _target(tmp_path, "ignores its controls"), "--max-evaluations", "3")
    assert code == 2
    assert "the search does not start" in said
    assert not list((tmp_path / "runs").glob("*"))


def test_a_search_counts_binaries_and_can_be_resumed_from_its_journal(tmp_path: Path) -> None:
    file = _target(tmp_path)
    code, said = _call("search", file, "--max-evaluations", "6", "-j", "2", "--json")
    assert code == 0, said
    found = json.loads(said)
    assert found["counts"]["evaluations"] == 6
    assert found["counts"]["distinct"] <= found["counts"]["built"]
    assert found["settings"]["target"] == {"kind": "file", "target": file, "constraints": []}
    more = CliRunner().invoke(
        app, ["search", "resume", found["run"], "--max-evaluations", "8", "--no-progress", "--json"]
    )
    assert more.exit_code == 0, more.output
    assert json.loads(more.output)["candidates"] >= found["candidates"]


def test_options_of_operators_are_refused_for_a_file(tmp_path: Path) -> None:
    code, said = _call("canary", _target(tmp_path), "--dtype", "fp32")
    assert code == 2
    assert "--dtype: only for operators" in said
    code, said = _call("canary", "softmax", "--compiler", "fortran")
    assert code == 2
    assert "'fortran' is no GCC or Clang" in said
