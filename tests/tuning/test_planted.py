"""A tuning run through the real rooms among candidates that misbehave: each gets its verdict."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

import kernelwright
from kernelwright import space
from kernelwright import winners
from kernelwright.kernels.cpu import NativeKernel
from kernelwright.referee import Patience
from kernelwright.tuning import EvaluationRecord
from kernelwright.tuning import Plan
from kernelwright.tuning import tune
from kernelwright.tuning._native import NativePipeline

SOURCES = Path(__file__).parents[1] / "referee" / "planted"
INCLUDE = Path(kernelwright.__file__).parent / "kernels" / "cpu" / "include"
#: The default does its work twice, so that the plain kernel wins.
PLANTS = (
    "honest_half_speed",
    "honest_scalar",
    "all_zeros",
    "writes_outside",
    "crashes",
    "crashes_when_timed",
    "loops",
    "does_not_compile",
)


@pytest.fixture
def kernel(tmp_path: Path) -> NativeKernel:
    folder = tmp_path / "rms_norm"
    folder.mkdir()
    cases = "".join(f'#if KW_PLANT == {n}\n#include "{name}.cpp"\n#endif\n' for n, name in enumerate(PLANTS))
    (folder / "rms_norm.cpp").write_text(cases)
    (folder / "build.toml").write_text(
        f"""
[general]
name = "rms_norm"
version = 1
edition = 5
backends = ["cpu"]

[kernel.rms_norm_generic]
backend = "cpu"
depends = []
src = ["rms_norm.cpp"]
include = ["{SOURCES}", "{INCLUDE}"]
cxx-flags = []
"""
    )
    tunables = space.Space(
        {"plant": space.choice(list(range(len(PLANTS)))), "cxx_debug": space.choice(["", "-g0"])}
    )
    return NativeKernel("rms_norm", folder, tunables)


@pytest.mark.serial
def test_each_planted_kernel_gets_its_verdict_and_the_run_goes_on(kernel: NativeKernel) -> None:
    def pipeline(plan: Plan) -> NativePipeline:
        return NativePipeline(plan, kernel=kernel, patience=Patience(silent_s=3.0, total_s=60.0))

    others = set(psutil.Process().children(recursive=True))
    record = tune("rms_norm", workloads=["7x1000"], dtype="fp32", budget_s=120.0, pipeline=pipeline)
    assert record.finished
    assert "the whole space was searched" in record.notes
    by_plant: dict[str, list[EvaluationRecord]] = {}
    for one in record.evaluations:
        by_plant.setdefault(PLANTS[one.configuration["plant"]], []).append(one)
    assert set(by_plant) == set(PLANTS)
    expected = {
        "honest_half_speed": "passed",
        "honest_scalar": "passed",
        "all_zeros": "wrong",
        "writes_outside": "wrong",
        "crashes": "crashed",
        "crashes_when_timed": "crashed",
        "loops": "hung",
        "does_not_compile": "build_failed",
    }
    for name, status in expected.items():
        first, second = by_plant[name]
        assert (name, first.status) == (name, status)
        if status == "build_failed":
            assert "fastest_rms_norm_ever" in first.reason
            continue
        # A flag that changes nothing in the code: the verdict is shared.
        assert second.reused == first.number
        assert second.status == status
        assert second.build_key != first.build_key
        assert bool(first.ratios) == (status == "passed")
    (result,) = record.results
    assert result.winner is not None
    assert PLANTS[result.winner["plant"]] == "honest_scalar"
    assert result.comparison == "faster"
    confirmed = result.contest("default")
    assert confirmed is not None
    assert 1.3 < confirmed["ratio"] < 3
    stored = winners.find("rms_norm", result.bucket)
    assert stored is not None
    assert stored.evidence["code_key"] == record.evaluations[(result.number or 0) - 1].code_key
    assert set(psutil.Process().children(recursive=True)) <= others

    again = tune("rms_norm", workloads=["7x1000"], dtype="fp32", budget_s=20.0, seed=1, pipeline=pipeline)
    assert again.evaluations[1].origin == "winner", again.notes
    assert again.evaluations[1].configuration == result.winner
    (stands,) = again.results
    assert (stands.origin, stands.winner, stands.stored) == ("stored", result.winner, False)
    assert stands.outcome.startswith("the stored winner stands: faster, ")
    assert winners.find("rms_norm", result.bucket) == stored
