"""`kernelwright report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli._app import app
from kernelwright.search import Journal


def _run(folder: Path) -> Path:
    """The journal of a run that was interrupted before its first evaluation."""
    with Journal(folder / "journal.sqlite", create=True) as journal:
        journal.append(
            "started",
            {
                "t": 0.0,
                "operator": "softmax",
                "dtype": "fp32",
                "workloads": ["32x4096:fp32"],
                "backends": ["cpu"],
                "budget_s": 10.0,
                "seed": 0,
                "machine": {
                    "fingerprint": "00",
                    "cpu": "Example",
                    "cores": 2,
                    "threads": 2,
                    "tiers": ["generic"],
                    "system": "Linux",
                },
                "versions": {"python": "3.11"},
                "defaults": {},
                "stored": {},
                "space_key": "0",
            },
        )
    return folder


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))


def test_the_latest_run_is_reported_unless_one_is_named(tmp_path: Path) -> None:
    _run(tmp_path / "runs" / "20260101-000000-softmax-aaaa")
    latest = _run(tmp_path / "runs" / "20260102-000000-softmax-bbbb")
    result = CliRunner().invoke(app, ["report"])
    assert result.exit_code == 0, result.output
    assert str(latest / "report.html") in result.stdout
    assert (latest / "report.html").exists()
    assert (latest / "results.csv").exists()


def test_json_names_the_files(tmp_path: Path) -> None:
    folder = _run(tmp_path / "runs" / "one")
    result = CliRunner().invoke(app, ["report", "one", "--json"])
    assert json.loads(result.stdout) == {
        "run": str(folder),
        "report": str(folder / "report.html"),
        "results": str(folder / "results.csv"),
    }


def test_an_unknown_run_gets_the_nearest_name(tmp_path: Path) -> None:
    _run(tmp_path / "runs" / "20260101-000000-softmax-aaaa")
    result = CliRunner().invoke(app, ["report", "20260101-000000-softmax-aaab"])
    assert result.exit_code == 2
    assert "did you mean '20260101-000000-softmax-aaaa'?" in result.stderr


def test_a_broken_journal_is_said_without_a_traceback(tmp_path: Path) -> None:
    folder = _run(tmp_path / "runs" / "one")
    (folder / "journal.sqlite").write_bytes(b"not a journal")
    result = CliRunner().invoke(app, ["report", "one"])
    assert result.exit_code == 2
    assert str(folder / "journal.sqlite") in result.stderr
    assert "Traceback" not in result.stderr
