"""A confirmation on a GPU: fresh processes with fresh data, the baseline beside itself; no GPU is needed."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.controls import Artifact
from kernelwright.controls import KernelRun
from kernelwright.controls import PtxTarget
from kernelwright.controls import TritonTarget
from kernelwright.controls._gpu_confirm import confirm_on_gpu
from kernelwright.controls._gpu_measured import MeasuredOnGpu
from kernelwright.errors import UsageError
from kernelwright.referee import Comparison
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.search import StageFailure
from kernelwright.space import Configuration

BASE, OWN = Artifact(Path("base"), "base"), Artifact(Path("own"), "own")


class PlantedBench:
    """Times that are drawn, about a tenth of a per cent apart; `fault` says what is amiss."""

    def __init__(self, run: KernelRun, fault: str, folder: Path) -> None:
        self.run, self.fault, self.folder = run, fault, folder

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        yield

    def check(self, path: Path, kernel: str, parameters: Configuration) -> None:
        seen = {"seeds": list(self.run.seeds), "process": os.getpid(), "path": str(path)}
        with (self.folder / "seen").open("a") as stream:
            stream.write(json.dumps(seen) + "\n")
        if self.fault == "wrong":
            raise StageFailure("own: argument 2 is off by 3", kind="wrong", lasts=True)
        if self.fault == "exits":
            os._exit(7)

    def contest(self, baseline: Any, candidate: Any, *, budget_s: float) -> list[tuple[float, ...]]:
        assert (baseline[0].name, candidate[0].name) == ("base", "own")
        assert budget_s == pytest.approx(0.4)
        rng = random.Random(self.run.seeds[0])
        own = {"": 0.9e-3, "same": 1e-3, "slow": 1.1e-3}.get(self.fault, 1e-3)
        copy = 1.05e-3 if self.fault == "differs" else 1e-3
        return [
            (base, base * copy * 1e3 * rng.gauss(1, 1e-3), base * own * 1e3 * rng.gauss(1, 1e-3))
            for base in (1e-3 * rng.gauss(1, 1e-3) for _ in range(20))
        ]


class PlantedTarget(MeasuredOnGpu):
    """A target that has its bench from here."""

    name = "planted"

    def __init__(self, folder: Path, fault: str = "", run: KernelRun | None = None) -> None:
        super().__init__(run)
        self.folder, self.fault = folder, fault

    def build(self, config: Any) -> Artifact:
        return BASE

    def make_bench(self, run: KernelRun) -> Any:
        return PlantedBench(run, self.fault, self.folder)

    def entry_of(self, artifact: Artifact) -> tuple[Path, str, Configuration]:
        return artifact.path, "kernel", {}


def planted(folder: Path, fault: str = "") -> PlantedTarget:
    return PlantedTarget(folder, fault, KernelRun(list, list, [], [1], [1]))


@pytest.mark.parametrize(
    ("fault", "comparison", "ratio"),
    [("", Comparison.FASTER, 1 / 0.9), ("same", Comparison.SAME, 1.0), ("slow", Comparison.SLOWER, 1 / 1.1)],
)
def test_processes_with_data_of_their_own_decide(
    tmp_path: Path, fault: str, comparison: Comparison, ratio: float
) -> None:
    verdict = confirm_on_gpu(planted(tmp_path, fault), BASE, OWN, seed=1)
    assert verdict.status is Status.PASSED
    [contest] = verdict.contests
    assert contest.comparison is comparison
    assert contest.ratio == pytest.approx(ratio, rel=2e-3)
    assert contest.interval[0] <= contest.ratio <= contest.interval[1]
    assert (contest.mode, contest.regime, contest.blocks) == (Mode.COLD, Regime.PREALLOCATED, 100)
    assert contest.baseline_time.median_ns == pytest.approx(1e6, rel=1e-2)
    assert len(contest.conditions["ratios"]) == len(verdict.evidence["itself"]) == 5
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert len({one["process"] for one in seen}) == len({tuple(one["seeds"]) for one in seen}) == 5
    assert {one["path"] for one in seen} == {"own"}


def test_a_baseline_that_differs_from_itself_decides_nothing(tmp_path: Path) -> None:
    verdict = confirm_on_gpu(planted(tmp_path, "differs"), BASE, OWN, seed=1)
    assert (verdict.status, verdict.contests) == (Status.NOISY, ())
    assert "the baseline differs from itself" in verdict.reason


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ("wrong", Status.WRONG, "wrong: own: argument 2 is off by 3"),
        ("exits", Status.CRASHED, "exited: the process exited with code 7 before the objective returned"),
    ],
)
def test_what_fails_has_no_time(tmp_path: Path, fault: str, status: Status, said: str) -> None:
    verdict = confirm_on_gpu(planted(tmp_path, fault), BASE, OWN, seed=1)
    assert verdict.status is status
    assert verdict.reason == said
    assert verdict.evidence == {"process": 0}


def test_one_process_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs two processes at least; got 1"):
        confirm_on_gpu(planted(tmp_path), BASE, OWN, processes=1)


def test_a_target_without_a_run_cannot_be_confirmed(tmp_path: Path) -> None:
    verdict = confirm_on_gpu(PlantedTarget(tmp_path), BASE, OWN)
    assert verdict.status is Status.UNSUPPORTED
    assert "planted was given no `run`" in verdict.reason


def test_all_targets_for_a_gpu_are_confirmed_so() -> None:
    assert issubclass(PtxTarget, MeasuredOnGpu)
    assert issubclass(TritonTarget, MeasuredOnGpu)
