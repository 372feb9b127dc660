"""Whatever a candidate does to its process: a verdict in bounded time, and the next one is judged normally.

With the settings that a person gets who asks for nothing else, but for the two that keep a processor busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.process import Template
from kernelwright.referee import ContractJudge
from kernelwright.referee import ContractTarget
from kernelwright.referee import Patience
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee.contract import _judge
from kernelwright.referee.contract._facts import Deadlines

BASELINE = """
import torch
def get_inputs():
    return [torch.randn(6, 32)]
def get_reference_output(x):
    return x * 2
"""
KERNELS = """
import ctypes, os, signal, time
import torch

def honest(x):
    return x * 2

def crash(x):
    return ctypes.string_at(0)

def exits(x):
    os._exit(0)

def closes(x):
    os.closerange(0, 4096)
    return x * 2

def forks(x):
    while True:
        if not os.fork():
            time.sleep(1000)

def balloons(x):
    kept = []
    while True:
        kept.append(bytearray(1 << 30))

def stops(x):
    os.killpg(0, signal.SIGSTOP)

def spins(x):
    while True:
        pass

def floods(x):
    while True:
        os.write(1, b"y" * 65536)
"""
#: One that keeps a processor busy is waited for a minute; that is not waited for here.
SHORT = Patience(silent_s=3.0, total_s=3.0)
ATTACKS = {
    "crash": (Status.CRASHED, "ended by SIGSEGV", None),
    "exits": (Status.CRASHED, "ended its process itself with exit code 0", None),
    "closes": (Status.CRASHED, "closed the judge's channel", None),
    "forks": (Status.CRASHED, "Resource temporarily unavailable", None),
    "balloons": (Status.OUT_OF_MEMORY, "ran out of memory", None),
    "stops": (Status.HUNG, "its process was stopped by a signal", None),
    "spins": (Status.HUNG, "had not answered after 3 s", SHORT),
    "floods": (Status.HUNG, "it flooded its standard output ('yyyy", SHORT),
}
Check = Callable[[str, Patience | None], Verdict]


@pytest.fixture
def check(tmp_path: Path, template: Template, monkeypatch: pytest.MonkeyPatch) -> Check:
    # Who works on the harness while its tests run is no candidate.
    monkeypatch.setattr(_judge, "fingerprint", lambda baseline: {})
    (tmp_path / "baseline.py").write_text(BASELINE)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "attacks.py").write_text(KERNELS)

    def check(name: str, patience: Patience | None) -> Verdict:
        target = ContractTarget(
            tmp_path / "baseline.py", "attacks", f"attacks.{name}", (tmp_path / "kernels",)
        )
        with ContractJudge(target, patience=patience, template=template) as judge:
            return judge.check()

    return check


@pytest.mark.parametrize(
    ("name", "status", "said", "patience"),
    [(name, *expected) for name, expected in ATTACKS.items()],
    ids=ATTACKS,
)
def test_an_attack_is_a_verdict_and_the_next_kernel_is_judged(
    check: Check, name: str, status: Status, said: str, patience: Patience | None
) -> None:
    began = time.monotonic()
    verdict = check(name, patience)
    assert time.monotonic() - began < 150.0
    assert verdict.status is status, verdict.reason
    assert said in verdict.reason
    assert verdict.evidence["guards"], "what confined it is said with the verdict"
    after = check("honest", None)
    assert after.status is Status.PASSED, after.reason


def test_nobody_is_waited_for_longer_than_a_verdict_may_take(tmp_path: Path, template: Template) -> None:
    """Import, first call and a later one, each at its limit: within the 120 s that a verdict may take."""
    (tmp_path / "baseline.py").write_text(BASELINE)
    with ContractJudge(ContractTarget(tmp_path / "baseline.py", "a", "a.f"), template=template) as judge:
        limits = judge.deadlines
    assert limits == Deadlines()
    assert limits.idle_s <= limits.call_s < limits.first_s
    assert limits.first_s + limits.call_s <= 90.0
