"""Every name that a `baseline.py` may define decides a verdict: with it one way, without it another."""

from __future__ import annotations

import textwrap
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

DOUBLE = """
import torch
def get_inputs():
    return [torch.randn(12, 64)]
def get_reference_output(x):
    return x * 2
"""
#: Sums of which torch itself loses some digits; what is lost is the error of torch.
LOSSY = DOUBLE.replace("x * 2", "(x + 100) - 100")
WIDTHS = """
import torch
def get_inputs(width=64):
    return [torch.randn(12, width)]
def get_reference_output(x):
    return x * 2
"""
Check = Callable[[str, str], Verdict]


@pytest.fixture(autouse=True)
def _edited_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works on the harness while its tests run is no candidate."""
    monkeypatch.setattr(_judge, "fingerprint", lambda baseline: {})


@pytest.fixture
def check(tmp_path: Path, template: Template) -> Check:
    def check(body: str, baseline: str) -> Verdict:
        package = tmp_path / "path" / "my_kernel"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text("import torch\n" + textwrap.dedent(body))
        (tmp_path / "baseline.py").write_text(baseline)
        target = ContractTarget(tmp_path / "baseline.py", "my_kernel", "my_kernel.f", (tmp_path / "path",))
        with ContractJudge(target, patience=Patience(10.0, 60.0), template=template) as judge:
            return judge.check()

    return check


#: What a candidate does, against which reference; what it gets where the file says no more, in words; and
#: the line with which it passes.
NAMES = {
    "factor": (
        """
        def f(x):
            lost = ((x + 100) - 100) - x
            # Denormals are lost altogether, and infinities are not.
            out = torch.where(x.abs() < 1e-20, 0, x + 3 * lost)
            return torch.where(x.isfinite(), out, x)
        """,
        LOSSY,
        Status.WRONG,
        "exceeds",
        "ERROR_BUDGET = {'factor': 3.5}",
    ),
    "floor_ulps": (
        """
        def f(x):
            out = x * 2
            if out.numel():
                at = out.abs().argmax()
                out.view(-1)[at] *= 1 + 64 * 2**-23
            return out
        """,
        DOUBLE,
        Status.WRONG,
        "exceeds",
        "ERROR_BUDGET = {'floor_ulps': 80, 'relative_l2': 1}",
    ),
    "relative_l2": (
        "def f(x):\n    return x * (2 * (1 + 64 * 2**-23))",
        DOUBLE + "ERROR_BUDGET = {'floor_ulps': 80}\n",
        Status.WRONG,
        "relative L2 error",
        "ERROR_BUDGET = {'floor_ulps': 80, 'relative_l2': {'fp32': 8e-6}}",
    ),
    "deterministic": (
        "def f(x):\n    return torch.where(torch.rand_like(x) < 0.5, x * 2, x * (2 + 2**-22))",
        DOUBLE,
        Status.NONDETERMINISTIC,
        "the same call on the same data gave",
        "ERROR_BUDGET = {'deterministic': False}",
    ),
    "DETERMINISTIC": (
        "def f(x):\n    return torch.where(torch.rand_like(x) < 0.5, x * 2, x * (2 + 2**-22))",
        DOUBLE,
        Status.NONDETERMINISTIC,
        "write DETERMINISTIC = False",
        "DETERMINISTIC = False",
    ),
    "SHARES": (
        "def f(x):\n    return x if x.is_contiguous() else x.clone()",
        DOUBLE.replace("x * 2", "x.clone()"),
        Status.WRONG,
        "the output shares storage with the input x",
        "SHARES = True",
    ),
    "NONFINITE": (
        "def f(x):\n    return torch.nan_to_num(x * 2, posinf=3e38, neginf=-3e38)",
        DOUBLE,
        Status.WRONG,
        "should not be finite",
        "NONFINITE = False",
    ),
}


@pytest.mark.parametrize(("body", "baseline", "status", "said", "line"), NAMES.values(), ids=NAMES)
def test_a_name_decides(check: Check, body: str, baseline: str, status: Status, said: str, line: str) -> None:
    without = check(body, baseline)
    assert without.status is status, without.reason
    assert said in without.reason
    given = check(body, baseline + line + "\n")
    assert given.status is Status.PASSED, given.reason


def test_each_workload_is_judged_and_named(check: Check) -> None:
    body = "def f(x):\n    return x * 2 if x.shape[-1] == 64 else x * 3\n"
    assert check(body, WIDTHS).status is Status.PASSED
    verdict = check(body, WIDTHS + "WORKLOADS = {'plain': {}, 'wide': {'width': 80}}\n")
    assert verdict.status is Status.WRONG
    assert verdict.reason.startswith("wide, as it comes: the output: returned 1.5 times the expected result")
