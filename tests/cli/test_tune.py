"""The command `tune`: what it prints, how it ends, and that it can be continued."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner
from typer.testing import Result

sys.path.append(str(Path(__file__).parents[1] / "tuning"))

from standin import StandIn

from kernelwright.cli import _app
from kernelwright.cli._tune_view import make_view
from kernelwright.tuning import _tune
from kernelwright.tuning import load_run
from kernelwright.tuning import run_ids
from kernelwright.tuning import tune

COMMAND = [sys.executable, "-m", "kernelwright", "tune"]


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(_tune, "_native_pipeline", lambda _: made)
    return made


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(_app.app, ["tune", *arguments], env={"COLUMNS": "200"})


SHORT = ("rms_norm", "--workload", "1x4096", "-w", "512x4096", "--budget", "4s")


def test_the_table_says_what_was_proven_and_where_the_report_is(standin: StandIn, folders: Path) -> None:
    done = invoke(*SHORT)
    assert done.exit_code == 0, done.output
    (name,) = run_ids()
    assert f"run {name}: rms_norm bf16, 2 workloads" in done.output
    for row in ("1x4096:bf16", "512x4096:bf16"):
        (line,) = [line for line in done.output.splitlines() if line.startswith(f"{row} ")]
        assert "(new)" in line
        assert "faster" in line
        assert "1.500× [1.400, 1.600]" in line
    assert "2.045× [2.035, 2.055]" in done.output
    assert "unroll=4" in done.output
    assert "distinct artifacts" in done.output
    assert "build failed" in done.output or "build_failed" in done.output
    assert "winners stored: 2" in done.output
    page = folders / "runs" / name / "report.html"
    assert f"report: {page}" in done.output
    assert page.exists()
    assert (page.parent / "results.csv").exists()


def test_a_pipe_gets_plain_lines(standin: StandIn) -> None:
    done = invoke(*SHORT)
    assert "\x1b" not in done.output
    assert "best so far #" in done.output
    assert "racing finalists;" in done.output
    assert "confirming;" in done.output


def test_a_terminal_gets_a_panel_with_the_best_the_failures_and_the_time_left() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200, highlight=False)
    with make_view(console, quiet=False) as view:
        tune(
            "rms_norm",
            workloads=["1x4096"],
            budget_s=1.5,
            on_event=view.listen,
            pipeline=lambda _: StandIn(delay_s=0.01),
        )
    shown = screen.getvalue()
    assert "screened, not proven" in shown
    assert "1x4096:bf16" in shown
    assert " s left" in shown
    assert "judged" in shown
    assert re.search(r"\d+ (wrong|crashed|hung|build_failed)", shown)


def test_it_says_plainly_that_the_default_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = StandIn(speed=lambda configuration, _: 0.9 if configuration["rows"] > 1 else 1.0)
    monkeypatch.setattr(_tune, "_native_pipeline", lambda _: slow)
    done = invoke(*SHORT)
    assert done.exit_code == 0
    assert "1x4096:bf16: the default stands: " in done.output
    assert "winners stored" not in done.output


def test_a_second_run_starts_from_the_stored_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tune, "_native_pipeline", lambda _: StandIn())
    invoke(*SHORT)
    done = invoke(*SHORT, "--seed", "5")
    assert "(stored)" in done.output
    assert "1x4096:bf16: the stored winner stands: faster" in done.output


def test_json_is_all_that_is_printed(standin: StandIn) -> None:
    done = invoke(*SHORT, "--json")
    record: dict[str, Any] = json.loads(done.stdout)
    assert record["finished"]
    assert record["operator"] == "rms_norm"
    assert record["artifacts"] >= 12
    assert [result["workload"] for result in record["results"]] == ["1x4096:bf16", "512x4096:bf16"]
    assert record["evaluations"][0]["origin"] == "default"
    assert "wrong" in record["failures"]


def test_ctrl_c_says_how_to_continue_and_the_run_can_be_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = StandIn()
    interrupted.interrupt_after = 20
    monkeypatch.setattr(_tune, "_native_pipeline", lambda _: interrupted)
    done = invoke(*SHORT)
    (name,) = run_ids()
    assert done.exit_code == 130
    assert f"kernelwright tune --resume {name}" in done.output
    monkeypatch.setattr(_tune, "_native_pipeline", lambda _: StandIn())
    done = invoke("--resume", name)
    assert done.exit_code == 0, done.output
    assert "(new)" in done.output
    assert run_ids() == [name]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rms_nom",), "did you mean 'rms_norm'"),
        (("rms_norm", "--workload", "huge"), "unknown workload of rms_norm 'huge'"),
        (("rms_norm", "--dtype", "bf61"), "did you mean 'bf16'"),
        (("rms_norm", "--backend", "cpuu"), "did you mean 'cpu'"),
        (("rms_norm", "--backend", "torch"), "declares tunables"),
        (("rms_norm", "--budget", "soon"), "written as 60s, 5m or 1h; got 'soon'"),
        ((), "name an operator"),
    ],
)
def test_bad_input_is_said_with_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output


def test_an_unknown_run_lists_the_runs(standin: StandIn) -> None:
    invoke(*SHORT)
    (name,) = run_ids()
    done = invoke("--resume", name[:-1] + "x")
    assert done.exit_code == 2
    assert f"did you mean '{name}'" in done.output


def test_a_broken_journal_is_set_aside_without_a_traceback(standin: StandIn, folders: Path) -> None:
    invoke(*SHORT)
    (name,) = run_ids()
    os.truncate(folders / "runs" / name / "journal.sqlite", 3000)
    done = invoke("--resume", name)
    assert done.exit_code == 2
    assert "set aside as journal.sqlite.broken-1" in done.output
    assert "Traceback" not in done.output


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_verdicts(folders: Path, count: int) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for name in run_ids():
            record = load_run(folders / "runs" / name)
            if sum(one.status != "pending" for one in record.evaluations) >= count:
                return name
        time.sleep(0.05)
    raise AssertionError("the run judged nothing in time")


def gone(processes: list[psutil.Process]) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes):
            return True
        time.sleep(0.05)
    return False


REAL = ("rms_norm", "--dtype", "fp32", "--workload", "3x512", "--budget", "12s")


@pytest.mark.serial
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_real_thing_ends_leaving_nobody_and_goes_on(folders: Path, how: signal.Signals) -> None:
    process = start(*REAL)
    name = wait_for_verdicts(folders, 3)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(how)
    _, errors = process.communicate(timeout=20)
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert f"--resume {name}" in errors
        assert "Traceback" not in errors
    assert gone(children)
    before = load_run(folders / "runs" / name)
    done = subprocess.run([*COMMAND, "--resume", name, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["finished"]
    assert record["sittings"] == 2
    assert record["artifacts"] >= 4
    for one in before.evaluations:
        if one.status != "pending":
            after = record["evaluations"][one.number - 1]
            assert (after["status"], after["ratios"]) == (one.status, one.ratios)
            assert after["finished_s"] == one.finished_s
    assert [one["status"] for one in record["evaluations"] if one["status"] == "pending"] == []
    assert [one["status"] for one in record["evaluations"]].count("passed") >= 3
    (result,) = record["results"]
    assert result["workload"] == "3x512:fp32"
    assert (folders / "runs" / name / "report.html").exists()
