"""Plots at the ends of what a run can hold."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.report import _axes
from kernelwright.report import _digest
from kernelwright.report import _figures
from kernelwright.tuning import load_run


@pytest.mark.parametrize("interval", [[0.0, math.inf], [0.0, 1.2], [1.0, 1.0], [0.9, math.inf]])
def test_an_interval_without_an_end_is_drawn_up_to_where_the_axis_goes(
    make_run, interval: list[float]
) -> None:
    record = load_run(make_run())
    for result in record.results:
        for contest in result.contests:
            contest["interval"] = interval
    figure = _figures.forest(record)
    assert figure is not None
    drawn = json.loads(figure.to_json())
    low, high = drawn["layout"]["xaxis"]["range"]
    assert math.isfinite(low)
    assert math.isfinite(high)
    for trace in drawn["data"]:
        assert None not in trace["error_x"]["array"]
        assert all(
            minus < value for minus, value in zip(trace["error_x"]["arrayminus"], trace["x"], strict=True)
        )


def test_a_forest_has_a_row_for_each_workload_mode_and_regime(make_run) -> None:
    figure = _figures.forest(load_run(make_run()))
    assert figure is not None
    labels = list(figure.layout.yaxis.ticktext)
    assert len(labels) == 1 + 3 * 4
    assert [label.partition("<br>")[0] for label in labels if "<b>" in label] == [
        "<b>1x4096</b>",
        "<b>32x4096</b>",
        "<b>512x4096</b>",
        "<b>4096x4096</b>",
    ]
    assert figure.data[0].name == "against default"


def test_nothing_to_show_is_no_plot(make_run) -> None:
    record = load_run(make_run(cut="asked"))
    assert _figures.forest(record) is None
    assert _figures.convergence(record, by_time=False) is None
    assert _figures.attained(_digest.attained(record, None)) is None


def test_convergence_over_time_ends_with_the_best(make_run) -> None:
    record = load_run(make_run())
    figure = _figures.convergence(record, by_time=True)
    assert figure is not None
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines"}
    best = record.best("512x4096:bf16")
    assert best is not None
    assert lines["512x4096"].y[-1] == best.ratios["512x4096:bf16"]
    assert lines["512x4096"].x[-1] <= record.elapsed_s


@given(st.floats(1e-4, 1.0), st.floats(1.001, 1e5))
def test_ratio_ticks_lie_on_the_axis_and_are_few(low: float, high: float) -> None:
    ticks = _axes.ratio_ticks(low, high)
    assert ticks == sorted(set(ticks))
    assert all(low <= tick <= high * (1 + 1e-9) for tick in ticks)
    assert 1 <= len(ticks) <= 14


@given(st.floats(1e-3, 1e3), st.floats(4, 1e6))
def test_decades_cover_the_axis(low: float, factor: float) -> None:
    high = low * factor
    made = _axes.decades(low, high)
    assert made["tickvals"]
    assert all(low <= tick <= high for tick in made["tickvals"])
