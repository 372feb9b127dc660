"""docs/referee.md against the code: exit codes, statuses, names of a `baseline.py`, numbers of the rule."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import torch

from kernelwright.cli import _judged
from kernelwright.ops import _baseline
from kernelwright.ops import _baseline_budget
from kernelwright.ops import BaselineBudget
from kernelwright.referee import Comparison
from kernelwright.referee import Status
from kernelwright.referee._gates import WelchGate

TEXT = (Path(__file__).parents[2] / "docs" / "referee.md").read_text()


def section(title: str) -> str:
    """The text under a heading."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> list[str]:
    """The words in backticks in the first column of a table."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def test_the_statuses_are_those_of_the_code() -> None:
    assert sorted(first_column(section("Statuses"))) == sorted(Status)


def test_the_keys_of_the_object_are_those_of_the_code() -> None:
    assert set(first_column(section("The JSON object"))) == {*_judged.KEYS, "rows"}


def test_the_comparisons_are_those_of_the_code() -> None:
    faster = section("What counts as faster")
    assert {one for one in Comparison if f"`{one}`" in faster} == set(Comparison)


def test_the_names_of_the_contract_are_those_that_are_read() -> None:
    read = set(re.findall(r'_flag\(path, namespace, "(\w+)"', inspect.getsource(_baseline)))
    read |= set(re.findall(r'namespace\.get\("([A-Z_]+)"', inspect.getsource(_baseline)))
    assert set(first_column(section("The contract of a `baseline.py`"))) == read


def test_the_keys_of_the_budget_are_those_that_are_read() -> None:
    (row,) = (line for line in TEXT.splitlines() if line.startswith("| `ERROR_BUDGET`"))
    named = re.findall(r"`(\w+)`", row.split("|")[2])
    assert named == list(_baseline_budget._BUDGET_KEYS)


def test_the_numbers_of_the_rule_are_those_of_the_code() -> None:
    text, budget = section("What counts as right"), BaselineBudget()
    assert f"≤ {budget.factor:g} · max|torch − fp64|" in text
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        (said,) = re.findall(rf"{name}: ([\d.e-]+),", text)
        assert float(said) == budget.relative_l2[dtype]


def test_the_numbers_of_the_older_gate_are_those_of_the_code() -> None:
    text, gate = " ".join(section("What counts as faster").split()), WelchGate()
    assert f"at least {gate.warmups} warm-up calls and {gate.trials} trials" in text
    assert f"Welch's test below {gate.p:g}, Cohen's d above {gate.effect:g}" in text


def test_the_exit_codes_are_those_of_the_code() -> None:
    told = " ".join(section("Statuses").split()).partition("Exit codes: ")[2]
    for code, words in (
        (0, "`passed` and not slower"),
        (_judged.EXIT_NO, "anything else that was judged"),
        (_judged.EXIT_USAGE, "bad usage"),
        (_judged.EXIT_HARNESS, "the harness could not run"),
    ):
        assert f"{code} {words}" in told
    assert re.findall(r"(?:^|; )(\d) ", told) == ["0", "1", "2", "3"]
