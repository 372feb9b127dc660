"""What decides a race, on real processes: the older gate where it is asked for, and the baseline's noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.process import Template
from kernelwright.referee import Comparison
from kernelwright.referee import ContractJudge
from kernelwright.referee import ContractTarget
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee._gates import WelchGate
from kernelwright.referee.contract import _confirm
from kernelwright.referee.contract import _judge

#: Calls that take a while without using a processor: rounds of few calls are soon made.
PLAIN = """
import time
import torch
def get_inputs():
    return [torch.randn(4, 8)]
def get_reference_output(x):
    time.sleep(0.002)
    return x * 2
"""
#: What a call takes changes every 20 ms by a factor of ten, up or down.
FITFUL = """
import random, time
import torch
def get_inputs():
    return [torch.randn(4, 8)]
def get_reference_output(x):
    time.sleep(random.Random(int(time.monotonic() * 50)).choice((0.0005, 0.005)))
    return x * 2
"""
KERNELS = """
import random, time
import torch

def slow(x):
    time.sleep(0.005)
    return x * 2

def fitful(x):
    time.sleep(random.Random(int(time.monotonic() * 50)).choice((0.0005, 0.005)))
    return x * 2
"""
Bench = Callable[..., Verdict]


@pytest.fixture
def bench(tmp_path: Path, template: Template, monkeypatch: pytest.MonkeyPatch) -> Bench:
    # Who works on the harness while its tests run is no candidate.
    monkeypatch.setattr(_judge, "fingerprint", lambda baseline: {})
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.py").write_text(KERNELS)

    def bench(baseline: str, name: str, **options: Any) -> Verdict:
        (tmp_path / "baseline.py").write_text(baseline)
        target = ContractTarget(tmp_path / "baseline.py", "mine", f"mine.{name}", (tmp_path / "kernels",))
        with ContractJudge(target, seed=11, threads=1, template=template) as judge:
            return judge.bench(["warm"], **options)

    return bench


@pytest.mark.serial
def test_the_older_gate_gets_the_calls_that_it_asks_for_and_decides(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that is clear after one process gets a second one, because the first has half the trials."""
    monkeypatch.setattr(_confirm, "_WELCH", WelchGate(trials=24))
    for _ in range(2):
        verdict = bench(PLAIN, "slow", gate="welch", budget_s=20.0, processes=2)
        if verdict.status is not Status.NOISY:
            break
    else:
        pytest.skip(f"the machine cannot time anything now: {verdict.reason}")
    assert verdict.status is Status.PASSED, verdict.reason
    (contest,) = verdict.contests
    assert contest.comparison is Comparison.SLOWER
    assert (contest.conditions["processes"], contest.blocks) == (2, 24)
    gate = contest.conditions["gate"]
    assert gate["name"] == "welch"
    assert any(text.startswith("mean ") for text in gate["not_held"]), "a loss says why it is no win"
    assert not any("trials" in text or "warm-ups" in text for text in gate["not_held"])


@pytest.mark.serial
def test_a_baseline_that_cannot_be_told_from_itself_is_compared_with_nothing(bench: Bench) -> None:
    verdict = bench(FITFUL, "fitful", budget_s=8.0, processes=1)
    assert verdict.status is Status.NOISY, verdict.reason
    assert verdict.reason.startswith("workload default, warm: ")
    assert "the baseline" in verdict.reason
    assert verdict.contests == ()
    itself = verdict.evidence["conditions"]["baseline_against_itself"]
    low, high = itself["interval"]
    assert high > 1.25 * low
    assert verdict.evidence["cases"] > 20, "what the check saw is kept"
