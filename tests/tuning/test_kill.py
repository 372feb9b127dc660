"""`kill -9` of a run at any moment, then `--resume`: nothing lost, nothing repeated, nobody left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kernelwright import settings
from kernelwright import winners
from kernelwright.tuning import load_run
from kernelwright.tuning import run_ids
from kernelwright.tuning import RunRecord

SCRIPT = Path(__file__).with_name("standin.py")
BUDGET_S = 1.2


def start(diary: Path, run: str | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(diary), str(BUDGET_S), *([run] if run else [])]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "STANDIN_DELAY": "0.004"}
    )


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes: list[psutil.Process], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes):
            return True
        time.sleep(0.02)
    return False


def finished(record: RunRecord) -> dict[int, object]:
    return {one.number: one for one in record.evaluations if one.status != "pending"}


@pytest.mark.serial
@pytest.mark.parametrize("seed", range(10))
def test_a_run_killed_at_a_random_moment_is_continued(tmp_path: Path, seed: int) -> None:
    diary = tmp_path / "diary.txt"
    rng = random.Random(seed)
    process = start(diary)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    children = descendants(process)
    assert children
    time.sleep(rng.uniform(0, 1.15 * BUDGET_S))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(children)

    before = load_run(settings.runs_dir() / name)
    done = finished(before)
    judged_before = diary.read_text().count("check ") if diary.exists() else 0

    resumed = start(diary, name)
    children = descendants(resumed)
    assert resumed.wait(60) == 0
    assert gone(children)

    record = load_run(settings.runs_dir() / name)
    assert record.finished
    assert run_ids() == [name]
    for number, one in done.items():
        assert record.evaluations[number - 1] == one
    assert all(one.status != "pending" for one in record.evaluations)
    configurations = [str(one.configuration) for one in record.evaluations]
    assert len(set(configurations)) == len(configurations)
    # Each machine code was checked once; only one that was in flight at the kill is checked again.
    checks = diary.read_text().count("check ")
    own_code = [one for one in record.evaluations if one.code_key and one.reused is None]
    assert len(own_code) <= checks <= len(own_code) + 1
    assert judged_before <= len([one for one in own_code if one.number in done]) + 1
    for result in record.results:
        assert result.winner is not None
        assert result.stored
        stored = winners.find("rms_norm", result.bucket)
        assert stored is not None
        assert stored.configuration == result.winner


@pytest.mark.serial
def test_ctrl_c_ends_a_run_with_its_children(tmp_path: Path) -> None:
    process = start(tmp_path / "diary.txt")
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    children = descendants(process)
    assert children
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) != 0
    assert gone(children, within_s=1.0)
    assert not load_run(settings.runs_dir() / name).finished
    assert start(tmp_path / "diary.txt", name).wait(60) == 0
    assert load_run(settings.runs_dir() / name).finished
