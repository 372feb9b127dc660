"""`kernelwright winners`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright import winners
from kernelwright.cli._app import app

BUCKET = "bf16-rows32-hidden4096"


@pytest.fixture(autouse=True)
def stored(monkeypatch, tmp_path) -> None:
    """One winner that holds here, one of older sources, one of another machine, one of a lost operator."""
    from kernelwright.kernels.cpu import native_kernels

    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path))
    here = winners.this_machine()
    now = native_kernels()["rms_norm"].provenance()
    evidence = {"run": "r1", "ratio": [1.2, 1.1, 1.3]}
    for record in (
        winners.Record("rms_norm", BUCKET, here, "cpu", {"unroll": 2}, now, evidence),
        winners.Record("rms_norm", "fp32-rows1-hidden4096", here, "cpu", {}, {"source": "older"}),
        winners.Record("rms_norm", BUCKET, "elsewhere", "cpu", {"unroll": 4}, now),
        winners.Record("lost", "b", here, "cpu", {}),
    ):
        winners.store(record)


def run(*words: str):
    return CliRunner().invoke(app, ["winners", *words])


def test_list_says_of_each_whether_it_serves_here():
    result = run("list", "rms_norm")
    assert result.exit_code == 0
    serving, older, other = sorted(result.stdout.splitlines(), key=lambda line: "serves here" not in line)
    assert f"rms_norm  {BUCKET}  cpu" in serving
    assert {"proven with source older" in older, "machine elsewhere" in older} == {True, False}
    assert {"proven with source older" in other, "machine elsewhere" in other} == {True, False}
    assert "ignored here: there is no operator 'lost'" in run("list").stdout
    assert len(json.loads(run("list", "--json").stdout)) == 4


def test_an_empty_store_says_how_to_fill_it(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path / "empty"))
    assert "`kernelwright tune OPERATOR` finds some" in run("list").stdout
    assert "`kernelwright tune softmax` finds some" in run("list", "softmax").stdout
    assert "`kernelwright tune softmax` finds some" in run("show", "softmax").stdout


def test_show_has_configuration_provenance_and_evidence():
    text = run("show", "rms_norm", BUCKET).stdout
    for part in (
        "serves here",
        "configuration",
        "unroll",
        "provenance",
        "compiler",
        "evidence",
        "[1.2, 1.1, 1.3]",
    ):
        assert part in text
    assert len(json.loads(run("show", "rms_norm", "--json").stdout)) == 3


def test_winners_travel_and_what_does_not_hold_here_is_said(tmp_path: Path, monkeypatch):
    shipped = tmp_path / "shipped.json"
    assert f"3 winners written to {shipped}" in run("export", str(shipped), "--operator", "rms_norm").stdout
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path / "elsewhere"))
    text = run("import", str(shipped)).stdout
    assert "3 winners taken in" in text
    assert "ignored here: it was proven on machine elsewhere" in text
    assert text.count("ignored here") == 2
    assert len(winners.all_records()) == 3


def test_forget_drops_a_bucket_here_or_everywhere():
    assert "1 winner of rms_norm forgotten" in run("forget", "rms_norm", BUCKET).stdout
    assert len(winners.all_records("rms_norm")) == 2
    assert "2 winners of rms_norm forgotten" in run("forget", "rms_norm", "--all-machines").stdout
    assert winners.all_records("rms_norm") == ()
    assert "1 winner of lost forgotten" in run("forget", "lost").stdout


def test_a_broken_file_is_a_note_not_a_traceback(tmp_path: Path):
    path = next(iter(winners.folder().glob("rms_norm@elsewhere.json")))
    path.write_text("{")
    result = run("list")
    assert result.exit_code == 0
    assert "note: winners in rms_norm@elsewhere.json cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["list", "rms_nrm"], "did you mean 'rms_norm'"),
        (["show", "rms_norm", "bf16-rows32-hidden409"], f"did you mean '{BUCKET}'"),
        (["forget", "rms_norm", "bf16-rows31-hidden4096"], f"did you mean '{BUCKET}'"),
        (["export", "x.json", "--operator", "sofmax"], "did you mean 'softmax'"),
        (["import", "nowhere.json"], "nowhere.json is not there"),
    ],
)
def test_bad_input_ends_with_the_nearest_names_and_code_2(words, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2
    assert text in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "x.json").exists()


def test_json_is_strict_where_an_interval_has_no_end():
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    evidence = {"contests": [{"ratio": 1.5, "interval": [0.0, float("inf")]}]}
    winners.store(winners.Record("rms_norm", "open", winners.this_machine(), "cpu", {}, {}, evidence))
    (shown,) = json.loads(run("show", "rms_norm", "open", "--json").stdout, parse_constant=refuse)
    assert shown["evidence"]["contests"][0]["interval"] == [0.0, None]
    assert "open" in run("list").stdout
