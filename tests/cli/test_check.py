"""`kernelwright check`, and `bench` with a baseline.py: targets, exit codes, JSON, the screen."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernelwright.cli import _check_operators
from kernelwright.cli import _contract
from kernelwright.cli._app import app
from kernelwright.cli._check_operators import Row
from kernelwright.cli._judged import KEYS
from kernelwright.errors import NoCompilerError
from kernelwright.errors import UsageError
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import RefereeError
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Timing
from kernelwright.referee import Verdict

KERNEL = ["--kernel-package", "my_kernel", "--op", "my_kernel.rms_norm"]
EVIDENCE = {
    "seed": 77,
    "not_checked": ["more than 2^31 elements: asked for with large=True"],
    "refused": ["default x transposed: ValueError"],
    "guards": {
        "process_group": "active",
        "user": "active",
        "network": "the kernel has no network namespaces",
    },
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A baseline.py, and a package that would not survive being imported."""
    (tmp_path / "baseline.py").write_text("def get_inputs():\n    return []\n")
    packages = tmp_path / "packages" / "my_kernel"
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text("raise SystemExit('imported by the judge')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(packages.parent))
    return tmp_path


def contest(
    ratio: float = 1.5, comparison: Comparison = Comparison.FASTER, mode: Mode = Mode.WARM
) -> Contest:
    return Contest(
        candidate="my_kernel.rms_norm",
        baseline="baseline.py",
        workload="default",
        mode=mode,
        regime=Regime.ALLOCATING,
        comparison=comparison,
        ratio=ratio,
        interval=(ratio - 0.1, ratio + 0.1),
        candidate_time=Timing(2000.0, 1900.0, 2200.0, 50, 0.01),
        baseline_time=Timing(2000.0 * ratio, 1.0, 2.0, 50, 0.01),
        blocks=60,
        conditions={"load_before": 0.5, "steal": 0.01, "threads": 2},
    )


class Judge:
    """Stands in for the judge of contracts: notes what it was asked, answers what it was given."""

    def __init__(self, answer: Verdict | Exception) -> None:
        self.answer = answer
        self.fields: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.asked: list[Any] = []

    @contextlib.contextmanager
    def start(self, fields: dict[str, Any], **options: Any) -> Iterator[Judge]:
        self.fields, self.options = fields, options
        yield self

    def check(self) -> Verdict:
        return self._answer("check")

    def bench(self, modes: Any, **options: Any) -> Verdict:
        return self._answer(("bench", list(modes), options))

    def _answer(self, asked: Any) -> Verdict:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def judging(monkeypatch: pytest.MonkeyPatch, answer: Verdict | Exception) -> Judge:
    judge = Judge(answer)
    monkeypatch.setattr(_contract, "contract_judge", judge.start)
    return judge


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def passed(*contests: Contest) -> Verdict:
    return Verdict(Status.PASSED, "right in 300 calls", contests, EVIDENCE)


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (passed(contest()), 0),
        (passed(contest(1.0, Comparison.SAME)), 0),
        (passed(contest(1.0, Comparison.AMBIGUOUS)), 0),
        (passed(contest(0.5, Comparison.SLOWER)), 1),
        (passed(contest(), contest(0.5, Comparison.SLOWER, Mode.COLD)), 1),
        (Verdict(Status.CHEATED, "it replaced time.perf_counter"), 1),
        (Verdict(Status.WRONG, "element [0, 0] is 7"), 1),
        (Verdict(Status.NOISY, "the baseline differs from itself by 9%"), 1),
        (UsageError("baseline.py defines no get_inputs()"), 2),
        (RefereeError("the reference died"), 3),
        (NoCompilerError("no compiler"), 3),
        (ZeroDivisionError("a fault of ours"), 3),
    ],
    ids=str,
)
def test_exit_codes_and_one_json_object_whatever_comes(
    monkeypatch: pytest.MonkeyPatch, folder: Path, verdict: Any, code: int
) -> None:
    judging(monkeypatch, verdict)
    result = run("bench", "baseline.py", *KERNEL, "--json")
    assert result.exit_code == code
    document = json.loads(result.stdout)
    assert set(KEYS) <= set(document)
    if isinstance(verdict, Verdict):
        assert (document["status"], document["reason"]) == (verdict.status, verdict.reason)
    else:
        assert (document["status"], document["evidence"]["exit_code"]) == (None, code)
        assert str(verdict) in document["reason"]
        assert str(verdict) in result.stderr


def test_the_object_of_one_contest(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    judging(monkeypatch, passed(contest()))
    document = json.loads(run("bench", "baseline.py", *KERNEL, "--json").stdout)
    assert (document["comparison"], document["ratio"]) == ("faster", pytest.approx(1.5))
    assert document["interval"] == pytest.approx([1.4, 1.6])
    assert document["times"]["candidate"]["median_ns"] == 2000.0
    assert document["times"]["baseline"]["median_ns"] == 3000.0
    assert document["evidence"]["guards"]["network"] == "the kernel has no network namespaces"
    (row,) = document["rows"]
    assert row["conditions"] == contest().conditions, "what the machine did meanwhile comes with the number"


def test_several_contests_are_rows_under_a_headline(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    judging(monkeypatch, passed(contest(2.0), contest(0.5, Comparison.SLOWER, Mode.COLD)))
    document = json.loads(run("bench", "baseline.py", *KERNEL, "--mode", "both", "--json").stdout)
    assert (document["comparison"], document["ratio"]) == ("slower", pytest.approx(1.0))
    assert [row["comparison"] for row in document["rows"]] == ["faster", "slower"]
    assert document["times"]["default cold allocating"]["candidate"]["median_ns"] == 2000.0


def test_an_open_interval_is_strict_json(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    import dataclasses

    judging(monkeypatch, passed(dataclasses.replace(contest(), interval=(0.0, float("inf")))))
    document = json.loads(run("bench", "baseline.py", *KERNEL, "--json").stdout, parse_constant=pytest.fail)
    assert document["interval"] == [0.0, None]


def test_the_screen_says_all_of_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    judging(monkeypatch, passed(contest()))
    result = run("bench", "baseline.py", *KERNEL)
    for text in (
        "my_kernel.rms_norm against baseline.py",
        "passed: right in 300 calls",
        "faster: 1.500× [1.400, 1.600] default warm allocating; 2.00 µs against 3.00 µs, 60 rounds",
        "not checked: more than 2^31 elements",
        "refused: 1 layouts or sizes",
        "guards: process group, user",
        "no guard: network: the kernel has no network namespaces",
        "load average 0.50",
        "seed: 77",
        "warm: ",
    ):
        assert text in result.stdout, text
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) < 24


def test_what_was_asked_reaches_the_judge(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    judge = judging(monkeypatch, passed(contest()))
    text = "--atol 1e-3 --rtol 1e-2 --mode cold --budget 20s --processes 5 --gate welch --threads 1 --seed 9"
    assert run("bench", "baseline.py", *KERNEL, *text.split()).exit_code == 0
    assert judge.fields == {
        "baseline": folder / "baseline.py",
        "package": "my_kernel",
        "op": "my_kernel.rms_norm",
        "path": (folder / "packages", folder),
        "atol": 1e-3,
        "rtol": 1e-2,
    }
    asked = {"seed": 9, "threads": 1, "budget_s": 20.0, "saying": "checking and racing"}
    assert judge.options == asked
    assert judge.asked == [("bench", ["cold"], {"budget_s": 20.0, "processes": 5, "gate": "welch"})]


def test_defaults(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    judge = judging(monkeypatch, passed())
    assert run("check", "baseline.py", "--op", "my_kernel.rms_norm").exit_code == 0
    assert (judge.asked, judge.fields["package"]) == (["check"], "my_kernel")
    assert judge.options == {"seed": None, "threads": None, "budget_s": 60.0, "saying": "checking"}
    run("bench", "baseline.py", *KERNEL)
    assert judge.asked[1] == ("bench", ["warm"], {"budget_s": 60.0, "processes": 3, "gate": "bootstrap"})


@pytest.mark.parametrize("command", ["check", "bench"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rms_nrom"], "did you mean 'rms_norm'"),
        (["missing.py", *KERNEL], "missing.py: no such file"),
        (["baseline.py"], "which kernel?"),
        (["baseline.py", "--kernel-package", "my_kernel"], "which kernel?"),
        (["baseline.py", "--op", "my_kernel"], "--op my_kernel.FUNCTION"),
        (["baseline.py", "--op", "my kernel.f"], "PACKAGE.FUNCTION"),
        (
            ["baseline.py", "--kernel-package", "absent", "--op", "absent.f"],
            "no package 'absent' on PYTHONPATH",
        ),
        (["baseline.py", "softmax", *KERNEL], "one baseline.py at a time"),
        (["baseline.py", *KERNEL, "--dtype", "bf16"], "--dtype: only for operators"),
        (["baseline.py", *KERNEL, "--atol", "-1"], "--atol is a number of at least 0"),
        (["softmax", "--op", "my_kernel.f"], "only with a baseline.py"),
        (["softmax", "--dtype", "bf61"], "did you mean 'bf16'"),
        (["softmax", "--workload", "4k"], "unknown workload of softmax '4k'"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_usage_is_2_and_says_what_to_do(folder: Path, command: str, words: list[str], said: str) -> None:
    result = run(command, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


@pytest.mark.parametrize(("option", "said"), [("--mode=hot", "cold"), ("--gate=wlch", "'welch'")])
def test_unknown_words_get_the_nearest(folder: Path, option: str, said: str) -> None:
    result = run("bench", "baseline.py", *KERNEL, option)
    assert result.exit_code == 2
    assert said in result.stderr


def test_finding_the_package_does_not_import_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    judging(monkeypatch, passed())
    assert run("check", "baseline.py", *KERNEL).exit_code == 0


def test_an_operator_is_checked_in_every_tier_that_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.kernels.cpu import native_kernels

    result = run("check", "softmax", "--dtype", "bf16", "--workload", "4x96", "--seed", "3", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["status"] == "passed"
    assert [row["tier"] for row in document["rows"]] == list(native_kernels()["softmax"].tiers())
    assert {row["dtype"] for row in document["rows"]} == {"bf16"}
    assert {row["evidence"]["seed"] for row in document["rows"]} == {3}
    assert document["evidence"]["calls"] > 50
    assert any("torch" in text for text in document["evidence"]["not_checked"])
    assert (document["comparison"], document["times"]) == (None, None)


def test_a_wrong_operator_is_1_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(*names: Any, **options: Any) -> Iterator[Row]:
        for status in (Status.PASSED, Status.WRONG):
            verdict = Verdict(status, f"is {status}", evidence={"runs": 5, "seed": 1})
            yield Row("softmax", "cpu", "avx2", "default configuration", "bf16", ("4x96:bf16",), verdict)

    monkeypatch.setattr(_check_operators, "check_operators", rows)
    result = run("check", "softmax")
    assert result.exit_code == 1
    assert "softmax bf16: cpu avx2, default configuration: is wrong" in result.stdout
    assert "not checked: softmax torch" in result.stdout
    document = json.loads(run("check", "softmax", "--json").stdout)
    assert (document["status"], len(document["rows"])) == ("wrong", 2)
