"""`kernelwright bench`: exit codes, table, JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernelwright import referee
from kernelwright.cli._app import app
from kernelwright.referee import BenchReport
from kernelwright.referee import BenchRow
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Timing
from kernelwright.referee._bench_result import PeerResult


def row(ratio: float = 1.5, comparison: Comparison = Comparison.FASTER, **changes: Any) -> BenchRow:
    mine = Timing(2000.0, 1900.0, 2200.0, 50, 0.01)
    contest = Contest(
        candidate="kernelwright",
        baseline="eager",
        workload="1x4096:bf16",
        mode=Mode.COLD,
        regime=Regime.ALLOCATING,
        comparison=comparison,
        ratio=ratio,
        interval=(ratio - 0.1, ratio + 0.1),
        candidate_time=mine,
        baseline_time=Timing(2000.0 * ratio, 1.0, 2.0, 50, 0.01),
        blocks=50,
    )
    made = BenchRow(
        operator="softmax",
        dtype="bf16",
        workload="1x4096",
        mode=Mode.COLD,
        regime=Regime.ALLOCATING,
        status=Status.PASSED,
        reason="",
        form="allocates",
        time=mine,
        peers=(
            PeerResult("eager", Status.PASSED, "", "allocates", contest),
            PeerResult("compile", Status.UNSUPPORTED, "torch.compile needs Python.h", "", None),
        ),
        bytes_per_second=8e9,
        ceiling_fraction=None,
        served_by={"implementation": "cpu", "tier": "avx2", "because": "rank"},
        evidence={"rotation": {"capped": True, "llc_multiple": 2.5}},
        conditions={"load_before": 0.5, "steal": 0.01},
    )
    return dataclasses.replace(made, **changes)


class Asked:
    """Stands in for the bench: notes what it was asked, returns the rows given."""

    def __init__(self, *rows: BenchRow) -> None:
        self.rows = rows
        self.arguments: dict[str, Any] = {}

    def __call__(self, operators: list[str], **arguments: Any) -> BenchReport:
        self.arguments = {"operators": operators, **arguments}
        arguments["on_start"]("something")
        return BenchReport(self.rows, {"ceilings": False}, {"seed": 0})


def run(monkeypatch: pytest.MonkeyPatch, asked: Asked, *arguments: str) -> Any:
    monkeypatch.setattr(referee, "bench", asked)
    return CliRunner().invoke(app, ["bench", *arguments])


def test_exit_0_when_nothing_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(row(), row(1.0, Comparison.SAME), row(1.0, Comparison.AMBIGUOUS))
    assert run(monkeypatch, asked, "softmax").exit_code == 0


def test_exit_1_when_a_row_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Asked(row(), row(0.8, Comparison.SLOWER)), "softmax").exit_code == 1


def test_exit_1_when_an_output_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = row(status=Status.WRONG, reason="element [0, 0] is 7", time=None, peers=(), bytes_per_second=None)
    result = run(monkeypatch, Asked(wrong), "softmax")
    assert result.exit_code == 1
    assert "wrong: element [0, 0] is 7" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rms_nrom"], "did you mean 'rms_norm'"),
        (["rms_norm", "--workload", "4k"], "unknown workload of rms_norm '4k'"),
        (["rms_norm", "--dtype", "bf61"], "did you mean 'bf16'"),
        (["rms_norm", "--backend", "cpuu"], "did you mean 'cpu'"),
        (["rms_norm", "--against", "eagre"], "did you mean 'eager'"),
    ],
)
def test_exit_2_and_the_nearest_names_for_unknown_ones(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["bench", *words])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_the_table_says_who_won_who_could_not_take_part_and_under_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = run(monkeypatch, Asked(row(0.8, Comparison.SLOWER)), "softmax").stdout
    for text in (
        "softmax bf16",
        "2.00 µs",
        "1.60 µs",
        "0.800× [0.700, 0.900] eager",
        "slower",
        "8.00 GB/s",
        "compile: torch.compile needs Python.h",
        "the better of each row",
        "served by cpu avx2",
        "2.5x the last-level cache",
        "a quarter of the available memory",
        "cold: ",
        "allocating: ",
        "no ceilings are stored",
        "load average 0.50",
    ):
        assert text in shown, text
    assert "preallocated: " not in shown
    assert "of ceiling" not in shown


def test_a_measured_ceiling_is_shown_as_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, Asked(row(ceiling_fraction=0.873)), "softmax").stdout
    assert "of ceiling" in shown
    assert "87.3%" in shown


def test_json_is_one_object_with_the_verdict_of_each_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    result = run(monkeypatch, Asked(row()), "softmax", "--json", "--out", str(out))
    document = json.loads(result.stdout)
    first = document["rows"][0]
    assert (first["comparison"], first["better"], first["ratio"]) == ("faster", "eager", 1.5)
    assert first["interval"] == [1.4, 1.6]
    assert document["ok"] is True
    assert document["geometric_means"][0]["against"] == "better"
    kept = json.loads(out.read_text())
    assert kept["schema"] == "kernelwright.bench"
    assert kept["rows"] == document["rows"]


def test_options_reach_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(row())
    text = (
        "softmax rms_norm --against eager,pkg:f --dtype fp32 --workload 1x8,2x8 --workload 3x8 --mode warm "
        "--regime preallocated --budget 250ms --backend cpu --processes 5 --threads 1 --seed 9"
    )
    assert run(monkeypatch, asked, *text.split()).exit_code == 0
    expected = {
        "operators": ["softmax", "rms_norm"],
        "against": ["eager", "pkg:f"],
        "dtypes": ["fp32"],
        "workloads": ["1x8", "2x8", "3x8"],
        "modes": ["warm"],
        "regimes": ["preallocated"],
        "budget_s": 0.25,
        "backend": "cpu",
        "processes": 5,
        "threads": 1,
        "seed": 9,
    }
    assert {name: asked.arguments[name] for name in expected} == expected


def test_defaults_are_both_modes_both_regimes_and_the_operators_own_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(row())
    run(monkeypatch, asked, "softmax")
    chosen = {name: asked.arguments[name] for name in ("against", "dtypes", "workloads", "modes", "regimes")}
    assert chosen == {
        "against": ["eager", "compile"],
        "dtypes": ["bf16", "fp32"],
        "workloads": None,
        "modes": ["cold", "warm"],
        "regimes": ["allocating", "preallocated"],
    }
