"""Candidates judged from end to end: right ones pass, and each act gets its status and its name."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import UsageError
from kernelwright.process import Template
from kernelwright.referee import ContractJudge
from kernelwright.referee import ContractTarget
from kernelwright.referee import Patience
from kernelwright.referee import RefereeError
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee.contract import _judge
from kernelwright.referee.contract import _timetable

NORM = """
import torch
def get_inputs():
    return [torch.randn(12, 64), torch.randn(64)]
def get_reference_output(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
"""
IN_PLACE = """
import torch
MUTATES = ["x"]
def get_inputs():
    return [torch.randn(12, 64), torch.randn(64)]
def get_reference_output(x, weight):
    return x.mul_(weight)
"""
TWO = """
import torch
def get_inputs():
    return [torch.randn(12, 64)]
def get_reference_output(x):
    return x * 2, x.argmax(-1)
"""
RIGHT = "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight"
PATIENCE = Patience(silent_s=10.0, total_s=60.0)
Check = Callable[..., Verdict]


@pytest.fixture(autouse=True)
def _edited_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works on the harness while its tests run is no candidate."""
    monkeypatch.setattr(_judge, "fingerprint", lambda baseline: {})


@pytest.fixture
def target(tmp_path: Path) -> Callable[..., ContractTarget]:
    def target(body: str, baseline: str = NORM, **options: Any) -> ContractTarget:
        (tmp_path / "path" / "my_kernel").mkdir(parents=True, exist_ok=True)
        (tmp_path / "path" / "my_kernel" / "__init__.py").write_text(
            "import torch\n" + textwrap.dedent(body).replace("RIGHT", RIGHT)
        )
        (tmp_path / "baseline.py").write_text(baseline)
        return ContractTarget(
            tmp_path / "baseline.py", "my_kernel", "my_kernel.f", (tmp_path / "path",), **options
        )

    return target


@pytest.fixture
def check(target: Callable[..., ContractTarget], template: Template) -> Check:
    def check(body: str, baseline: str = NORM, **options: Any) -> Verdict:
        one = target(body, baseline, **options)
        with ContractJudge(one, patience=PATIENCE, template=template) as judge:
            return judge.check()

    return check


def test_a_right_kernel_passes_with_evidence_of_what_was_asked(check: Check) -> None:
    verdict = check("def f(x, weight):\n    return RIGHT\n")
    assert verdict.status is Status.PASSED, verdict.reason
    evidence = verdict.evidence
    assert evidence["cases"] >= 35
    assert evidence["calls"] > evidence["cases"]
    assert evidence["refused"] == evidence["not_checked"] == []
    assert evidence["oracle"] == {"default": "fp64"}
    assert evidence["gradient"] == "not part of the contract"
    assert evidence["guards"]
    assert any("rsqrt" in name for name in evidence["operators"])
    json.dumps(dict(evidence))


def test_calls_are_drawn_anew_each_time_unless_a_seed_is_given(
    target: Callable[..., ContractTarget], template: Template
) -> None:
    one = target("def f(x, weight):\n    return RIGHT\n")
    judges = [ContractJudge(one, seed=seed, template=template) for seed in (None, None, 7, 7)]
    try:
        drawn = [judge.draw.getrandbits(64) for judge in judges]
        assert drawn[0] != drawn[1]
        assert drawn[2] == drawn[3]
    finally:
        for judge in judges:
            judge.close()


def test_a_process_finds_what_the_one_before_built_but_no_living_one_shares_a_folder(
    target: Callable[..., ContractTarget], template: Template
) -> None:
    body = """
        from pathlib import Path
        library = Path.home() / "cache" / "library"
        if not library.exists():
            (library / "under").mkdir(parents=True, mode=0o700)
            built = "built"
        else:
            built = "found"
            library.joinpath("under", "file").write_text("mine now")
        def f():
            return built
        """
    with ContractJudge(target(body), patience=PATIENCE, template=template) as judge:
        said = []
        for _ in range(2):
            with judge.candidate() as first, judge.candidate() as second:
                for performer in (first, second):
                    performer.load()
                    said.append(performer.call([], within_s=30.0).value["v"])
        assert said == ["built", "built", "found", "found"]
        assert len([*judge.scratch.iterdir()]) == 2


def test_what_a_candidate_leaves_behind_does_not_keep_the_judge_from_judging(
    target: Callable[..., ContractTarget], template: Template
) -> None:
    body = """
        import os
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(os.environ["HOME"])
        os.chmod(".", 0)
        def f(x, weight):
            return RIGHT
        """
    with ContractJudge(target(body), patience=PATIENCE, template=template) as judge:
        for _ in range(2):
            verdict = judge.check()
        assert verdict.status in (Status.PASSED, Status.CRASHED), verdict.reason
        scratch = judge.scratch
    assert not scratch.exists()


def test_layouts_may_be_refused_by_an_exception(check: Check) -> None:
    verdict = check(
        """
        def f(x, weight):
            if not x.is_contiguous():
                raise ValueError("contiguous input only")
            return RIGHT
        """
    )
    assert verdict.status is Status.PASSED, verdict.reason
    assert len(verdict.evidence["refused"]) >= 3
    assert all("contiguous input only" in text for text in verdict.evidence["refused"])


def test_an_in_place_kernel_passes_where_it_is_declared(check: Check) -> None:
    assert check("def f(x, weight):\n    return x.mul_(weight)\n", IN_PLACE).status is Status.PASSED


def test_a_module_is_made_as_the_reference_is(check: Check) -> None:
    baseline = """
import torch
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n))
    def forward(self, x):
        return x * self.weight
def get_init_inputs():
    return [64]
def get_inputs():
    return [torch.randn(12, 64)]
"""
    body = """
        class f(torch.nn.Module):
            def __init__(self, n):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.empty(n))
            def forward(self, x):
                return self.weight * x
        """
    verdict = check(body, baseline)
    assert verdict.status is Status.PASSED, verdict.reason


def test_gradients_are_judged_where_they_are_part_of_the_contract(check: Check) -> None:
    body = """
        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.save_for_backward(x, weight)
                return x * weight
            @staticmethod
            def backward(ctx, grad):
                x, weight = ctx.saved_tensors
                return grad * weight, (grad * x).sum(0) * FACTOR
        def f(x, weight):
            return Own.apply(x, weight)
        """
    baseline = NORM[: NORM.index("    return x *")] + "    return x * weight\nBACKWARD = True\n"
    right = check(body.replace("FACTOR", "1"), baseline)
    assert right.status is Status.PASSED, right.reason
    assert right.evidence["gradient"] == "judged"
    wrong = check(body.replace("FACTOR", "2"), baseline)
    assert wrong.status is Status.WRONG
    assert "the gradient of weight: returned 2 times the expected result" in wrong.reason


ACTS = {
    "memory of an earlier call": (
        (
            "out = {}\ndef f(x, weight):\n    mine = out.setdefault(x.shape, torch.empty_like(x))\n"
            "    return mine.copy_(RIGHT)"
        ),
        NORM,
        Status.WRONG,
        "shares storage with the output of an earlier call",
    ),
    "replay by address": (
        (
            "out = {}\ndef f(x, weight):\n    key = x.data_ptr(), weight.data_ptr()\n"
            "    if key not in out:\n        out[key] = RIGHT\n    return out[key].clone()"
        ),
        NORM,
        Status.CHEATED,
        "same addresses, a replay",
    ),
    "half of the rows": (
        "def f(x, weight):\n    out = RIGHT\n    out[12:] = 0\n    return out",
        NORM,
        Status.WRONG,
        "right for the shapes of its workload, and wrong for another number of rows",
    ),
    "one shape only": (
        "def f(x, weight):\n    assert len(x) == 12, 'twelve rows only'\n    return RIGHT",
        NORM,
        Status.UNSUPPORTED,
        "raises AssertionError: twelve rows only for a number of rows that the reference takes",
    ),
    "changed input": (
        "def f(x, weight):\n    out = RIGHT\n    weight[-1] += 1\n    return out",
        NORM,
        Status.WRONG,
        "changed its input weight: 1 of 64 elements",
    ),
    "left alone": (
        "def f(x, weight):\n    return x * weight",
        IN_PLACE,
        Status.WRONG,
        "argument x after the call: was not changed at all",
    ),
    "second output": (
        "def f(x):\n    return x * 2, x.argmin(-1)",
        TWO,
        Status.WRONG,
        "output[1]: ",
    ),
    "later": (
        (
            "import threading, time\ndef f(x, weight):\n    out = torch.zeros_like(x)\n    def work():\n"
            "        time.sleep(0.001)\n        out.copy_(RIGHT)\n    threading.Thread(target=work).start()\n"
            "    return out"
        ),
        NORM,
        Status.CHEATED,
        "changed after the call had returned",
    ),
    "after many calls": (
        (
            "n = [0, None]\ndef f(x, weight):\n    n[0] += 1\n    if n[0] > 60 and n[1] is not None and "
            "n[1].shape == x.shape:\n        return n[1].clone()\n    n[1] = RIGHT\n    return n[1].clone()"
        ),
        NORM,
        Status.CHEATED,
        "a replay",
    ),
    "skipped now and then": (
        (
            "import random\nn = [0]\ndef f(x, weight):\n    n[0] += 1\n"
            "    if n[0] > 60 and random.random() < 0.4:\n        return torch.randn_like(x)\n"
            "    return RIGHT"
        ),
        NORM,
        Status.CHEATED,
        "its work was skipped",
    ),
    "an exception": (
        "def f(x, weight):\n    raise ValueError('no')",
        NORM,
        Status.CRASHED,
        "raised ValueError: no",
    ),
    "an exit": (
        "import os\ndef f(x, weight):\n    os._exit(0)",
        NORM,
        Status.CRASHED,
        "ended its process itself with exit code 0",
    ),
    "no name": ("g = 1", NORM, Status.CRASHED, "f"),
}


@pytest.mark.parametrize(("body", "baseline", "status", "said"), ACTS.values(), ids=ACTS)
def test_each_act_has_its_status_and_its_name(
    check: Check, body: str, baseline: str, status: Status, said: str
) -> None:
    verdict = check(body, baseline)
    assert verdict.status is status, verdict.reason
    assert said in verdict.reason
    assert not verdict.contests


def test_tolerances_of_the_caller_are_used_and_cut(check: Check) -> None:
    body = "def f(x):\n    return x * 2 + 1e-4, x.argmax(-1)\n"
    baseline = TWO + "ERROR_BUDGET = {'relative_l2': 1e-2}\n"
    assert check(body, baseline).status is Status.WRONG
    verdict = check(body, baseline, atol=1e-3)
    assert verdict.evidence["tolerances"]["atol"] == 1e-3
    zeros = check("def f(x, weight):\n    return torch.zeros_like(x)\n", NORM, atol=100.0, rtol=100.0)
    assert zeros.status is Status.WRONG
    assert "returned zeros everywhere" in zeros.reason


@pytest.mark.parametrize(
    ("baseline", "error", "said"),
    [
        (NORM.replace("weight):\n", "weight):\n    import os; os._exit(3)\n"), RefereeError, "the reference"),
        (NORM + "WORKLOADS = 3\n", UsageError, "WORKLOADS is an int"),
        ("import my_kernel\n" + NORM, UsageError, "imports 'my_kernel'"),
        (
            NORM.replace("return x *", "return torch.rand(12, 64) * x *"),
            UsageError,
            "another result each time",
        ),
    ],
)
def test_a_broken_reference_is_no_verdict(
    check: Check, baseline: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        check("def f(x, weight):\n    return RIGHT\n", baseline)
    assert said in str(caught.value)


def test_a_candidate_without_a_name_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(UsageError, match="--kernel-package"):
        ContractTarget(Path("baseline.py"), "", "f")
    with pytest.raises(UsageError, match="atol is -1"):
        ContractTarget(Path("baseline.py"), "k", "f", atol=-1)


@pytest.mark.serial
def test_a_check_ends_near_its_budget_and_says_what_it_left_out(
    target: Callable[..., ContractTarget], template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_judge, "_LEAST_S", 0.0)
    monkeypatch.setattr(_timetable, "_LAST_S", 3.0)
    slow = NORM.replace("    return x *", "    __import__('time').sleep(0.15)\n    return x *")
    one = target("def f(x, weight):\n    return RIGHT\n", slow)
    with ContractJudge(one, patience=PATIENCE, template=template) as judge:
        assert judge.reference.contract
        began = time.monotonic()
        verdict = judge.check(budget_s=4.0)
        assert time.monotonic() - began < 12.0
    assert verdict.status is Status.PASSED, verdict.reason
    assert any("out of time" in text for text in verdict.evidence["not_checked"])


@pytest.mark.serial
def test_who_runs_the_clock_out_does_not_pass(
    target: Callable[..., ContractTarget], template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_judge, "_LEAST_S", 0.0)
    monkeypatch.setattr(_timetable, "_LAST_S", 4.0)
    stalls = "import time\ndef f(x, weight):\n    time.sleep(0.5)\n    return RIGHT\n"
    with ContractJudge(target(stalls), patience=PATIENCE, template=template) as judge:
        verdict = judge.check(budget_s=4.0)
    assert verdict.status is Status.HUNG
    assert "too slow to be judged" in verdict.reason
    assert verdict.evidence["not_checked"]


def test_a_sum_that_stays_the_same_is_no_way_to_recognise_inputs(check: Check) -> None:
    verdict = check(
        "kept = {}\n"
        "def f(x, weight):\n"
        "    key = (tuple(x.shape), x.stride(), float(x.sum()), float(weight.sum()))\n"
        "    if key not in kept:\n"
        "        kept[key] = RIGHT\n"
        "    return kept[key].clone()\n"
    )
    assert verdict.status is Status.CHEATED
    assert "earlier call" in verdict.reason


def test_the_judges_own_threads_are_as_before(check: Check) -> None:
    before = torch.get_num_threads()
    check("def f(x, weight):\n    return RIGHT\n")
    assert torch.get_num_threads() == before


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{Path("/a.py"): "1"}, {Path("/a.py"): "2"}])
    monkeypatch.setattr(_judge, "fingerprint", lambda baseline: next(answers))


@pytest.mark.usefixtures("edited")
def test_files_that_change_meanwhile_are_nothing_to_stand_on(check: Check) -> None:
    """By the candidate where it could, else by somebody else."""
    try:
        verdict = check("def f(x, weight):\n    return RIGHT\n")
    except RefereeError as error:
        assert "not by the candidate" in str(error)  # noqa: PT017
    else:
        assert verdict.status is Status.CHEATED
        assert "/a.py" in verdict.reason
