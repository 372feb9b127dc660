"""The perf_report form of a benchmark, without triton: one function, lines over an x axis, a metric.

    @perf_report([Benchmark(x_names=["M"], x_vals=[1, 32], line_arg="backend", line_vals=["cpu", "torch"],
                            line_names=["CPU", "PyTorch"], plot_name="rms-norm-bf16-GBps", args={...})])
    def bench_rms_norm(M, backend, dtype):
        x, weight = ...
        fn = lambda: kw.ops.rms_norm(x, weight, backend=backend)
        assert_within_budget(fn(), "rms_norm", x=x, weight=weight, eps=1e-6)
        return gigabytes_per_second("rms_norm", do_bench(fn), x=x, weight=weight)

    bench_rms_norm.run(print_data=True)

Lines are not measured one after the other: at each x, every line's function is first taken up to its
`do_bench`, then all lines are raced in interleaved blocks, then the functions go on with their times. So the
body up to a `do_bench` runs more than once, and must do the same each time.
"""

from __future__ import annotations

import contextvars
import math
import statistics
import zlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernelwright import dispatch
from kernelwright.errors import KernelwrightError
from kernelwright.errors import UsageError
from kernelwright.files import write_atomic
from kernelwright.ops import OperatorSpec
from kernelwright.referee._oracle import expect
from kernelwright.referee._python_clock import calibrate
from kernelwright.referee._python_clock import callable_contestant
from kernelwright.referee._python_clock import run_rounds
from kernelwright.referee._python_judge import fault
from kernelwright.referee._statistics import compare
from kernelwright.referee._verdict import Comparison

#: Endings of a plot's name, which say what its metric is.
SUFFIXES = ("-GBps", "-TFLOPS", "-ms")
_FEWEST_ROUNDS = 12
_MOST_ROUNDS = 400
_SECONDS = 0.4


class OutputMismatchError(KernelwrightError, AssertionError):
    """An output that is not what the operator's oracle says."""


@dataclass(frozen=True)
class Benchmark:
    """What to vary and what to draw; fields as in triton.testing.Benchmark.

    `x_vals` are values, or tuples where there are several `x_names`. `plot_name` ends in -GBps, -TFLOPS or
    -ms, which is the metric that the function returns. Ratios are against the last line.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        if not self.plot_name.endswith(SUFFIXES):
            raise UsageError(
                f"plot_name {self.plot_name!r} says no metric; end it in one of {', '.join(SUFFIXES)}"
            )
        if len(self.line_vals) != len(self.line_names):
            raise UsageError(
                f"{self.plot_name}: {len(self.line_vals)} line_vals and {len(self.line_names)} line_names"
            )
        if not self.line_vals or not self.x_vals:
            raise UsageError(
                f"{self.plot_name}: there is nothing to measure; line_vals and x_vals need values"
            )

    def point(self, x: Any) -> dict[str, Any]:
        """The keyword arguments of one x."""
        if len(self.x_names) == 1 and not isinstance(x, (tuple, list)):
            return {self.x_names[0]: x}
        values = x if isinstance(x, (tuple, list)) else [x] * len(self.x_names)
        if len(values) != len(self.x_names):
            raise UsageError(f"{self.plot_name}: x is {x!r}, expected values of {', '.join(self.x_names)}")
        return dict(zip(self.x_names, values, strict=True))


@dataclass(frozen=True)
class Line:
    """One line at one x: its metric, its median time, and how it stands to the last line."""

    name: str
    metric: float | None
    milliseconds: float | None
    comparison: Comparison | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Point:
    """All lines at one x."""

    x: Any
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Table:
    """What one Benchmark measured."""

    benchmark: Benchmark
    points: tuple[Point, ...]

    def csv(self) -> str:
        """x, then the metric of each line, then the ratio of each line to the last one."""
        names = list(self.benchmark.line_names)
        head = [*self.benchmark.x_names, *names, *(f"{name} vs {names[-1]}" for name in names[:-1])]
        rows = [",".join(head)]
        for point in self.points:
            ratios = [line.ratio for line in point.lines[:-1]]
            cells = [*self.benchmark.point(point.x).values(), *(line.metric for line in point.lines), *ratios]
            rows.append(
                ",".join(
                    "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
                    for cell in cells
                )
            )
        return "\n".join(rows) + "\n"


class Report:
    """A benchmark function with what it is to be run over; `run` measures."""

    def __init__(self, function: Callable[..., Any], benchmarks: Sequence[Benchmark]) -> None:
        self.function = function
        self.benchmarks = tuple(benchmarks)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, for one point."""
        return self.function(*args, **kwargs)

    def run(
        self, *, print_data: bool = False, save_path: str | Path | None = None, show_plots: bool = False
    ) -> tuple[Table, ...]:
        """Measure all benchmarks; print tables, and write `<plot_name>.csv` files, where asked.

        Raises UsageError for `show_plots`: there is no plotting in the terminal.
        """
        if show_plots:
            raise UsageError("show_plots is not there; use save_path and plot the CSV files")
        tables = []
        for benchmark in self.benchmarks:
            made = Table(benchmark, tuple(_measure(self.function, benchmark, x) for x in benchmark.x_vals))
            tables.append(made)
            if print_data:
                _print(made)
            if save_path is not None:
                write_atomic(Path(save_path) / f"{benchmark.plot_name}.csv", made.csv())
        return tuple(tables)


def perf_report(benchmarks: Benchmark | Sequence[Benchmark | None]) -> Callable[[Callable[..., Any]], Report]:
    """Decorate a benchmark function; a None in the list, which nothing here could serve, is left out."""
    listed = (
        [benchmarks] if isinstance(benchmarks, Benchmark) else [one for one in benchmarks if one is not None]
    )

    def decorate(function: Callable[..., Any]) -> Report:
        return Report(function, listed)

    return decorate


class _Reached(BaseException):
    """A line reached a `do_bench` without a time as yet. Not an Exception, so that no handler keeps it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        super().__init__()


@dataclass
class _Replay:
    """The times that a line's calls of `do_bench` are to return, in order."""

    times_ms: list[float]
    position: int = 0

    def next(self, function: Callable[[], Any]) -> float:
        if self.position == len(self.times_ms):
            raise _Reached(function)
        self.position += 1
        return self.times_ms[self.position - 1]


_replay: contextvars.ContextVar[_Replay | None] = contextvars.ContextVar("kernelwright_replay", default=None)


def do_bench(function: Callable[[], Any], *, seconds: float = _SECONDS) -> float:
    """The median time of one `function()`, in milliseconds, on the referee's clock, under inference_mode.

    Inside a `perf_report` run, it is raced against the other lines at the same x.
    """
    replay = _replay.get()
    if replay is not None:
        return replay.next(function)
    return statistics.median(race_callables({"function": function}, seconds=seconds)["function"]) * 1e-6


def race_callables(
    functions: Mapping[str, Callable[[], Any]], *, seconds: float = _SECONDS, seed: int = 0
) -> dict[str, list[float]]:
    """Paired times of one call of each function, nanoseconds, from interleaved blocks in random order."""
    contestants = [callable_contestant(name, function) for name, function in functions.items()]
    with torch.inference_mode():
        calibrate(contestants)
        rounds = run_rounds(contestants, seconds=seconds, fewest=_FEWEST_ROUNDS, most=_MOST_ROUNDS, seed=seed)
    return dict(rounds.times_ns)


def assert_within_budget(output: Tensor, operator: str, **arguments: Any) -> None:
    """Raise OutputMismatchError unless `output` is what `operator` computes, within its error budget."""
    spec = _spec(operator)
    with torch.no_grad():
        problem = fault(output, expect(spec, arguments))
    if problem:
        raise OutputMismatchError(f"{operator}: {problem}")


def gigabytes_per_second(operator: str, milliseconds: float, **arguments: Any) -> float:
    """The operator's least traffic over a time."""
    return float(_cost(operator, arguments).bytes / milliseconds * 1e-6)


def teraflops(operator: str, milliseconds: float, **arguments: Any) -> float:
    """The operator's FLOPs over a time."""
    return float(_cost(operator, arguments).flops / milliseconds * 1e-9)


def _spec(operator: str) -> OperatorSpec:
    spec: OperatorSpec | None = dispatch.spec(operator)
    if spec is None:
        raise UsageError(f"operator {operator!r} was registered without a spec: nothing can be checked")
    return spec


def _cost(operator: str, arguments: Mapping[str, Any]) -> Any:
    spec = _spec(operator)
    sizes = spec.sizes_of(**arguments)
    return spec.cost(spec.workload(*sizes.values(), dtype=arguments[spec.tensors[0]].dtype))


def _measure(function: Callable[..., Any], benchmark: Benchmark, x: Any) -> Point:
    """Take all lines from one `do_bench` to the next together, until each has returned its metric."""
    times: list[list[float]] = [[] for _ in benchmark.line_vals]
    metrics: list[float | None] = [None] * len(times)
    raced: dict[str, list[float]] = {}
    open_lines = list(range(len(times)))
    while open_lines:
        waiting: dict[int, Callable[[], Any]] = {}
        for index in open_lines:
            arguments = {
                **benchmark.point(x),
                benchmark.line_arg: benchmark.line_vals[index],
                **benchmark.args,
            }
            reached = _advance(function, arguments, times[index])
            if isinstance(reached, _Reached):
                waiting[index] = reached.function
            else:
                metrics[index] = _metric(reached)
        if waiting:
            seed = zlib.crc32(f"{benchmark.plot_name} {x}".encode())
            raced = race_callables({str(index): fn for index, fn in waiting.items()}, seed=seed)
            for index in waiting:
                times[index].append(statistics.median(raced[str(index)]) * 1e-6)
        open_lines = list(waiting)
    return Point(x, tuple(_lines(benchmark, times, metrics, raced)))


def _advance(function: Callable[..., Any], arguments: Mapping[str, Any], times_ms: list[float]) -> Any:
    token = _replay.set(_Replay(list(times_ms)))
    try:
        return function(**arguments)
    except _Reached as reached:
        return reached
    finally:
        _replay.reset(token)


def _metric(value: Any) -> float | None:
    """The metric, or the first of (median, low, high) as triton has it; None for a missing point."""
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    return None if value is None or not math.isfinite(value) else float(value)


def _lines(
    benchmark: Benchmark,
    times: list[list[float]],
    metrics: list[float | None],
    raced: Mapping[str, list[float]],
) -> Iterator[Line]:
    last = str(len(times) - 1)
    for index, name in enumerate(benchmark.line_names):
        spent = times[index][-1] if times[index] else None
        mine = raced.get(str(index))
        if str(index) == last or mine is None or last not in raced:
            yield Line(name, metrics[index], spent)
            continue
        comparison, ratio, interval = compare(raced[last], mine, minimum_effect=0.01, seed=0)
        yield Line(name, metrics[index], spent, comparison, ratio, interval)


def _print(made: Table) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn

    benchmark = made.benchmark
    unit = benchmark.ylabel or benchmark.plot_name.rpartition("-")[2]
    drawn = Drawn(title=f"{benchmark.plot_name} ({unit})", title_justify="left")
    for name in benchmark.x_names:
        drawn.add_column(name, justify="right")
    for name in benchmark.line_names:
        drawn.add_column(name, justify="right")
    last = benchmark.line_names[-1]
    for name in benchmark.line_names[:-1]:
        drawn.add_column(f"{name} vs {last}")
    for point in made.points:
        cells = [str(value) for value in benchmark.point(point.x).values()]
        cells += ["—" if line.metric is None else f"{line.metric:.4g}" for line in point.lines]
        drawn.add_row(*cells, *(_standing(line) for line in point.lines[:-1]))
    Console().print(drawn)


def _standing(line: Line) -> str:
    if line.ratio is None or line.interval is None or line.comparison is None:
        return "—"
    low, high = line.interval
    return f"{line.ratio:.3f}× [{low:.3f}, {high:.3f}] {line.comparison.value}"
