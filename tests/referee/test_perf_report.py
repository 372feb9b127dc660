"""The perf_report form: lines at one x are raced against each other, and the function is only asked."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import UsageError
from kernelwright.referee import _perf_report as module
from kernelwright.referee import assert_within_budget
from kernelwright.referee import Benchmark
from kernelwright.referee import Comparison
from kernelwright.referee import do_bench
from kernelwright.referee import gigabytes_per_second
from kernelwright.referee import perf_report
from kernelwright.referee import teraflops


def benchmark(**changes: Any) -> Benchmark:
    options: dict[str, Any] = {
        "x_names": ["M"],
        "x_vals": [1, 2],
        "line_arg": "backend",
        "line_vals": ["a", "b"],
        "line_names": ["A", "B"],
        "plot_name": "demo-GBps",
        "args": {"scale": 3},
    }
    return Benchmark(**{**options, **changes})


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replaces the race: line a takes 1 ms, b 2 ms; notes what is raced together."""
    seen: list[list[str]] = []

    def race(functions: dict[str, Any], *, seconds: float = 0.0, seed: int = 0) -> dict[str, list[float]]:
        seen.append([str(function()) for function in functions.values()])
        return {name: [(1 + int(name)) * 1e6] * 20 for name in functions}

    monkeypatch.setattr(module, "race_callables", race)
    return seen


def test_lines_of_one_x_are_raced_together(raced: list[list[str]]) -> None:
    @perf_report(benchmark())
    def bench(M: int, backend: str, scale: int) -> float:
        return M * scale / do_bench(lambda: f"{backend}{M}")

    (table,) = bench.run()
    assert raced == [["a1", "b1"], ["a2", "b2"]]
    assert [[line.metric for line in point.lines] for point in table.points] == [[3.0, 1.5], [6.0, 3.0]]


def test_each_line_is_compared_with_the_last(raced: list[list[str]]) -> None:
    @perf_report(benchmark())
    def bench(M: int, backend: str, scale: int) -> float:
        return do_bench(lambda: backend)

    (table,) = bench.run()
    first, last = table.points[0].lines
    assert (first.comparison, first.ratio, first.interval) == (
        Comparison.FASTER,
        pytest.approx(2.0),
        (2.0, 2.0),
    )
    assert last.comparison is None
    assert (first.milliseconds, last.milliseconds) == (1.0, 2.0)


def test_several_times_of_one_function_are_raced_in_turn(raced: list[list[str]]) -> None:
    @perf_report(benchmark(x_vals=[1]))
    def bench(M: int, backend: str, scale: int) -> float:
        forward = do_bench(lambda: f"forward {backend}")
        return forward + do_bench(lambda: f"backward {backend}")

    (table,) = bench.run()
    assert raced == [["forward a", "forward b"], ["backward a", "backward b"]]
    assert [line.metric for line in table.points[0].lines] == [2.0, 4.0]


def test_a_handler_of_the_function_does_not_catch_the_race(raced: list[list[str]]) -> None:
    @perf_report(benchmark(x_vals=[1]))
    def bench(M: int, backend: str, scale: int) -> float:
        try:
            return do_bench(lambda: backend)
        except Exception:  # noqa: BLE001 - what a careless benchmark does
            return -1.0

    (table,) = bench.run()
    assert [line.metric for line in table.points[0].lines] == [1.0, 2.0]


def test_a_line_without_a_value_is_a_gap(raced: list[list[str]]) -> None:
    @perf_report(benchmark(x_vals=[1]))
    def bench(M: int, backend: str, scale: int) -> float | None:
        return None if backend == "b" else do_bench(lambda: backend)

    (table,) = bench.run()
    first, last = table.points[0].lines
    assert (first.metric, last.metric) == (1.0, None)
    assert first.comparison is None


def test_an_output_that_is_wrong_ends_the_run() -> None:
    @perf_report(benchmark())
    def bench(M: int, backend: str, scale: int) -> float:
        x = torch.randn(4, 64)
        assert_within_budget(torch.zeros(4, 64), "softmax", x=x)
        return do_bench(lambda: None)

    with pytest.raises(AssertionError, match="softmax: element"):
        bench.run()


def test_several_x_names_take_tuples(raced: list[list[str]]) -> None:
    @perf_report(benchmark(x_names=["M", "N"], x_vals=[(2, 3)]))
    def bench(M: int, N: int, backend: str, scale: int) -> float:
        return M * N / do_bench(lambda: backend)

    (table,) = bench.run()
    assert table.points[0].lines[0].metric == 6.0


def test_configurations_that_nothing_serves_are_left_out(raced: list[list[str]]) -> None:
    @perf_report([None, benchmark(x_vals=[1])])
    def bench(M: int, backend: str, scale: int) -> float:
        return do_bench(lambda: backend)

    assert len(bench.run()) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"plot_name": "demo"}, "says no metric"),
        ({"line_names": ["A"]}, "2 line_vals and 1 line_names"),
        ({"x_vals": []}, "nothing to measure"),
    ],
)
def test_a_benchmark_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        benchmark(**changes)


def test_data_are_printed_and_saved(
    raced: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @perf_report(benchmark())
    def bench(M: int, backend: str, scale: int) -> float:
        return do_bench(lambda: backend)

    bench.run(print_data=True, save_path=tmp_path)
    assert "demo-GBps" in capsys.readouterr().out
    lines = (tmp_path / "demo-GBps.csv").read_text().splitlines()
    assert lines == ["M,A,B,A vs B", "1,1,2,2", "2,1,2,2"]


def test_plots_are_refused_rather_than_ignored() -> None:
    with pytest.raises(UsageError, match="save_path"):
        perf_report(benchmark())(lambda **_: 1.0).run(show_plots=True)


def test_the_function_can_be_called_by_itself() -> None:
    decorated = perf_report(benchmark())(lambda M, backend: f"{backend}{M}")
    assert decorated(3, backend="a") == "a3"


def test_rates_come_from_the_operators_cost() -> None:
    arguments = {"x": torch.zeros(2, 1000)}
    assert gigabytes_per_second("softmax", 1e-3, **arguments) == pytest.approx(2 * 2000 * 4 / 1e-6 * 1e-9)
    assert teraflops("softmax", 1e-3, **arguments) == pytest.approx(5 * 2000 / 1e-6 * 1e-12)


@pytest.mark.serial
def test_outside_a_run_one_function_is_timed_under_inference_mode() -> None:
    seen: list[bool] = []

    def function() -> None:
        seen.append(torch.is_inference_mode_enabled())
        time.sleep(0.002)

    assert 2.0 <= do_bench(function, seconds=0.05) < 10.0
    assert all(seen)


@pytest.mark.parametrize("operator", ["rms_norm", "softmax", "silu_and_mul"])
def test_each_operator_has_a_benchmark_in_this_form(operator: str) -> None:
    """In a process of its own: a benchmark file registers its own torch implementation."""
    folder = Path(__file__).parents[2] / "benchmarks"
    program = (
        f"import torch, bench_{operator} as file\n"
        f"report = file.bench_{operator}\n"
        "print([one.plot_name for one in report.benchmarks])\n"
        "for backend in report.benchmarks[0].line_vals:\n"
        "    print(backend, report(3, backend, torch.bfloat16, 64) > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    named = operator.replace("_", "-")
    assert f"'{named}-N" in done.stdout
    assert "bfloat16-GBps" in done.stdout
    assert "torch True" in done.stdout
