"""What the native pipeline refuses, says and bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright import machine
from kernelwright.errors import NoCompilerError
from kernelwright.errors import UsageError
from kernelwright.referee import BenchRow
from kernelwright.referee import Contest
from kernelwright.referee import RaceResult
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.tuning import _native
from kernelwright.tuning import Built
from kernelwright.tuning import Candidate
from kernelwright.tuning import Unbuilt
from kernelwright.tuning._native import NativePipeline
from kernelwright.tuning._plan import make_plan


@pytest.fixture
def pipeline() -> Iterator[NativePipeline]:
    made = NativePipeline(make_plan("rms_norm", ["3x64", "2x32"], "fp32", None))
    yield made
    made.close()


def test_the_default_of_the_registered_kernel_is_the_baseline(pipeline: NativePipeline) -> None:
    (entry,) = pipeline.entries
    assert entry.implementation == "cpu"
    assert entry.tier == machine.available_tiers()[-1]
    assert entry.space.contains(entry.space.default)
    assert set(pipeline.provenance("cpu")) >= {"source", "compiler"}


def test_a_build_is_an_artifact_or_the_compiler_s_words(pipeline: NativePipeline) -> None:
    (entry,) = pipeline.entries
    candidate = Candidate("cpu", entry.tier, entry.space.default)
    (built,) = pipeline.build([candidate])
    assert isinstance(built, Built)
    assert built.candidate is candidate
    assert built.handle.exists()
    assert built.details["flags"]
    assert built.details["library_bytes"] > 1000
    assert not isinstance(built, Unbuilt)


def test_no_compiler_is_said_before_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> machine.Compiler:
        raise NoCompilerError("no C++ compiler was found; install g++")

    monkeypatch.setattr(machine, "find_compiler", none)
    with pytest.raises(NoCompilerError, match="install g"):
        NativePipeline(make_plan("rms_norm", None, None, None))


def test_a_backend_without_tunables_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing about rms_norm can be tuned with backend torch"):
        NativePipeline(make_plan("rms_norm", None, None, ["torch"]))


@pytest.mark.parametrize(
    ("busy", "said"), [(0.05, None), (0.6, "other work takes 60% of the processors' time")]
)
def test_other_work_is_noticed(
    pipeline: NativePipeline, monkeypatch: pytest.MonkeyPatch, busy: float, said: str | None
) -> None:
    @contextlib.contextmanager
    def watch() -> Iterator[Any]:
        yield SimpleNamespace(busy=busy, steal=None)

    monkeypatch.setattr(machine, "watch", watch)
    found = pipeline.disturbance()
    assert found == said if said is None else (found or "").startswith(said)


def noisy() -> Verdict:
    return Verdict(Status.NOISY, "too busy")


def test_noise_is_not_held_against_a_candidate(
    pipeline: NativePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = pipeline.entries
    (built,) = pipeline.build([Candidate("cpu", entry.tier, entry.space.default)])
    assert isinstance(built, Built)
    asked: list[list[str]] = []
    contest: Any = object.__new__(Contest)

    def race(spec: object, workload: object, baseline: object, entrants: Any, **_: object) -> RaceResult:
        names = [entrant.name for entrant in entrants]
        asked.append(names)
        if len(asked) == 1:
            bad = {"#3": Verdict(Status.CRASHED, "signal 11"), "#4": noisy(), "#5": noisy()}
            return RaceResult({"#2": contest}, bad)
        return RaceResult({"#4": contest}, {"#5": noisy()})

    monkeypatch.setattr(pipeline._judge, "race", race)
    workload = make_plan("rms_norm", ["3x64"], "fp32", None).workloads[0]
    entrants = {f"#{number}": built for number in (2, 3, 4, 5)}
    contests, verdicts = pipeline.race(workload, ("default", built), entrants, budget_s=0.1, seed=0)
    assert asked == [["#2", "#3", "#4", "#5"], ["#4", "#5"]]
    assert set(contests) == {"#2", "#4"}
    assert {name: str(bad.status) for name, bad in verdicts.items()} == {"#3": "crashed", "#5": "noisy"}


def test_torch_is_raced_as_far_as_the_time_allows(
    pipeline: NativePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bench(operator: str, *, workloads: list[str], on_row: Any, **_: object) -> None:
        for _workload in workloads:
            row: Any = object.__new__(BenchRow)
            object.__setattr__(row, "peers", ())
            on_row(row)

    monkeypatch.setattr(_native, "bench", bench)
    workloads = make_plan("rms_norm", ["3x64", "2x32"], "fp32", None).workloads
    assert list(pipeline.peers(workloads, budget_s=60.0)) == ["3x64:fp32", "2x32:fp32"]
    assert list(pipeline.peers(workloads, budget_s=0.0)) == ["3x64:fp32"]
