"""`kill -9` of a run at any moment, then `--resume`: nothing lost, nothing repeated, nobody left behind."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest
from standin import work

from kernelwright import settings
from kernelwright import winners
from kernelwright.tuning import load_run
from kernelwright.tuning import run_ids
from kernelwright.tuning import RunRecord
from kernelwright.tuning._screening import BATCH

BUDGET_S = 1.2
PARTS = 10

# One process imports torch; the runs are forked from it before it has computed anything.
template = multiprocessing.get_context("forkserver")
template.set_forkserver_preload(["standin", "kernelwright.tuning"])


def start(diary: Path, run: str | None = None) -> tuple[BaseProcess, str]:
    ours, theirs = template.Pipe(duplex=False)
    kept = {name: os.environ[name] for name in ("KERNELWRIGHT_RUNS", "KERNELWRIGHT_DATA")}
    process = template.Process(target=work, args=(kept, diary, BUDGET_S, run, theirs))
    process.start()
    theirs.close()
    return process, ours.recv()


def descendants(process: BaseProcess) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:  # a run that had finished has nothing left to do
        return []


def ended(process: BaseProcess, within_s: float = 150.0) -> int | None:
    process.join(within_s)
    return process.exitcode


def gone(processes: list[psutil.Process], within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes):
            return True
        time.sleep(0.02)
    return False


def finished(record: RunRecord) -> dict[int, object]:
    return {one.number: one for one in record.evaluations if one.status != "pending"}


@pytest.mark.serial
@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_killed_at_a_random_moment_is_continued(tmp_path: Path, part: int) -> None:
    """At one in each part of the time that a run takes, and of what follows."""
    diary = tmp_path / "diary.txt"
    moment_s = random.Random(part).uniform(part, part + 1) / PARTS * 1.15 * BUDGET_S
    process, name = start(diary)
    children = descendants(process)
    assert children
    time.sleep(moment_s)
    process.kill()
    assert ended(process) is not None
    assert gone(children)

    before = load_run(settings.runs_dir() / name)
    done = finished(before)
    judged_before = diary.read_text().count("check ") if diary.exists() else 0

    resumed, again = start(diary, name)
    assert again == name
    children = descendants(resumed)
    assert ended(resumed) == 0
    assert gone(children)

    record = load_run(settings.runs_dir() / name)
    assert record.finished
    assert run_ids() == [name]
    for number, one in done.items():
        assert record.evaluations[number - 1] == one
    assert all(one.status != "pending" for one in record.evaluations)
    configurations = [str(one.configuration) for one in record.evaluations]
    assert len(set(configurations)) == len(configurations)
    # Each machine code was checked once; only the batch that was in flight at the kill is checked again.
    checks = diary.read_text().count("check ")
    own_code = [one for one in record.evaluations if one.code_key and one.reused is None]
    assert len(own_code) <= checks <= len(own_code) + BATCH
    assert judged_before <= len([one for one in own_code if one.number in done]) + BATCH
    for result in record.results:
        assert result.winner is not None
        assert result.stored
        stored = winners.find("rms_norm", result.bucket)
        assert stored is not None
        assert stored.configuration == result.winner


@pytest.mark.serial
def test_ctrl_c_ends_a_run_with_its_children(tmp_path: Path) -> None:
    process, name = start(tmp_path / "diary.txt")
    children = descendants(process)
    assert children
    time.sleep(0.3)
    os.kill(process.pid or 0, signal.SIGINT)
    assert ended(process) not in (0, None)
    assert gone(children)
    assert not load_run(settings.runs_dir() / name).finished
    resumed, _ = start(tmp_path / "diary.txt", name)
    assert ended(resumed) == 0
    assert load_run(settings.runs_dir() / name).finished
