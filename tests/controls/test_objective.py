"""The objective over controls: stages, one verdict a binary, constraints on binaries, failures by kind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.controls import BuildFailure
from kernelwright.controls import Controls
from kernelwright.controls import ControlsObjective
from kernelwright.controls import Counts
from kernelwright.controls import encode_controls
from kernelwright.controls import split_config
from kernelwright.errors import BuildError
from kernelwright.errors import SpaceError
from kernelwright.errors import UsageError
from kernelwright.search import INVALID_SCORE
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import MultiProcessWorker
from kernelwright.search import SerialWorker
from kernelwright.search import Task

sys.path.append(str(Path(__file__).parent))
from planted_targets import CRASHES_COMPILER
from planted_targets import PlantedTarget
from planted_targets import SINK
from planted_targets import SPILLS
from planted_targets import WRONG


def controls(*options: str) -> str:
    return encode_controls(Controls("gcc", options))


def evaluate(objective, *configs, worker_type=SerialWorker):
    found = []
    with worker_type(objective) as worker:
        for number, config in enumerate(configs):
            worker.submit(Task(number, config))
            found += worker.results(60.0)
    return found


@pytest.mark.parametrize("worker_type", [SerialWorker, MultiProcessWorker, IsoMultiProcessWorker])
def test_identical_binaries_share_one_verdict_and_failures_have_kinds(tmp_path: Path, worker_type) -> None:
    objective = ControlsObjective(PlantedTarget(tmp_path), constraints=["spill_stores == 0"])
    configs = [
        {},
        controls("-O3"),
        controls("-O2", SINK),
        controls("-O2"),
        controls(WRONG),
        controls(WRONG, SINK),
        controls(SPILLS),
        controls(CRASHES_COMPILER),
    ]
    results = evaluate(objective, *configs, worker_type=worker_type)
    assert [one.scores and one.scores[0] for one in results[:4]] == [1.0, 1.0, 1.1, 1.1]
    assert [bool(one.metadata.get("reused")) for one in results] == [
        False,
        True,
        False,
        True,
        False,
        True,
        False,
        False,
    ]
    kinds = [one.failure and one.failure.kind for one in results]
    assert kinds == [None] * 4 + ["wrong", "wrong", "pruned", "compiler_crashed"]
    assert results[5].failure.reason == results[4].failure.reason
    pruned = results[6]
    assert pruned.failure.reason == "spill_stores == 0 does not hold: {'spill_stores': 8}"
    assert pruned.metadata["features"]["spill_stores"] == 8, "what is known of the binary is kept"
    assert "measure" not in pruned.metadata["stages"]


def test_as_a_function_it_keeps_its_own_memory_and_counts(tmp_path: Path) -> None:
    target = PlantedTarget(tmp_path)
    objective = ControlsObjective(target, constraints=["spill_stores == 0"])
    scores = [
        objective(one) for one in ({}, controls("-O3"), controls("-O0"), controls(WRONG), controls(SPILLS))
    ]
    assert scores == [1.0, 1.0, 3.0, INVALID_SCORE, INVALID_SCORE]
    assert objective(controls(CRASHES_COMPILER)) == INVALID_SCORE
    assert objective(controls(WRONG, SINK)) == INVALID_SCORE
    assert len(target.measured) == 3, "the same code is measured once, right or wrong"
    assert objective.counts.to_json() == {
        "evaluations": 7,
        "built": 6,
        "distinct": 4,
        "reused": 2,
        "failures": {"wrong": 2, "pruned": 1, "compiler_crashed": 1},
    }
    assert str(objective.counts) == (
        "6 of 7 configurations gave 4 distinct binaries; 2 shared a verdict; 1 compiler crashed; 1 pruned; "
        "2 wrong"
    )


def test_counts_are_written_as_people_write_numbers() -> None:
    counts = Counts(1000, 612, 571, {}, frozenset(map(str, range(41))))
    assert str(counts).startswith("612 of 1,000 configurations gave 41 distinct binaries; 571 shared")


def test_a_constraint_names_what_is_known_of_a_binary(tmp_path: Path) -> None:
    objective = ControlsObjective(PlantedTarget(tmp_path), constraints=["spils == 0"])
    with pytest.raises(UsageError, match=r"'spils', which is not known.*registers, spill_stores"):
        objective.features(objective.build({}))
    with pytest.raises(SpaceError):
        ControlsObjective(PlantedTarget(tmp_path), constraints=["spills =="])


def test_what_a_configuration_may_look_like() -> None:
    text = controls("-O2")
    assert split_config({}, mixed=True) == ({}, None)
    assert split_config(text, mixed=False) == ({}, text)
    assert split_config([{"tile": 4}, text], mixed=True) == ({"tile": 4}, text)
    assert split_config([{"tile": 4}, None], mixed=True) == ({"tile": 4}, None)
    assert split_config([None, text], mixed=True) == ({}, text)
    with pytest.raises(UsageError, match=r"\[parameters, hex string\]"):
        split_config([text], mixed=True)
    with pytest.raises(UsageError, match="controls alone is a hex string"):
        split_config([{"tile": 4}, text], mixed=False)


@pytest.mark.parametrize(
    ("status", "log", "kind"),
    [
        ("build_failed", "kernel.cpp:3: error: expected ';'", "build_failed"),
        (
            "build_failed",
            "during RTL pass: vregs\nx.cpp: internal compiler error: in x",
            "compiler_crashed",
        ),
        ("build_failed", "PLEASE submit a bug report to llvm\nStack dump:\n0. clang", "compiler_crashed"),
        ("build_timeout", "error: killed at its time limit", "build_timeout"),
    ],
)
def test_who_failed_to_build_is_told_apart(status: str, log: str, kind: str) -> None:
    failure = BuildFailure.of(BuildError(status, "section 'x'", "g++ -c x.cpp", log))
    assert (failure.status, failure.failure_kind, failure.log) == (kind, kind, log)
