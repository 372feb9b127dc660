"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kernelwright import report
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Status


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0.00 ns"),
        (0.5, "0.50 ns"),
        (850.2, "850 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (3123, "3.12 µs"),
        (31_230, "31.2 µs"),
        (1_204_000, "1.20 ms"),
        (2.05e9, "2.05 s"),
        (7.2e12, "7200 s"),
        (None, "—"),
        (math.nan, "—"),
        (math.inf, "—"),
    ],
)
def test_duration(nanoseconds: float | None, text: str) -> None:
    assert report.duration(nanoseconds) == text


@given(st.floats(1e-2, 1e12))
def test_a_duration_reads_back_within_half_a_percent(nanoseconds: float) -> None:
    number, unit = report.duration(nanoseconds).split()
    back = float(number) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert math.isclose(back, nanoseconds, rel_tol=5.1e-3, abs_tol=5.1e-3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (9.96, "10 s"),
        (12.4, "12 s"),
        (59.6, "1 min 00 s"),
        (65, "1 min 05 s"),
        (7380, "2 h 03 min"),
    ],
)
def test_elapsed(seconds: float, text: str) -> None:
    assert report.elapsed(seconds) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (32768, "32 KiB"),
        (1572864, "1.5 MiB"),
        (23 * 2**30, "23 GiB"),
        (None, "—"),
    ],
)
def test_size(nbytes: int | None, text: str) -> None:
    assert report.size(nbytes) == text


def test_rates() -> None:
    assert report.bandwidth(42.13e9) == "42.1 GB/s"
    assert report.throughput(310e9) == "310 GFLOP/s"
    assert report.throughput(1.2e12, "OP/s") == "1.20 TOP/s"
    assert report.bandwidth(None) == "—"
    assert report.percent(0.8734) == "87.3%"


def test_a_ratio_is_shown_with_its_interval_at_one_precision() -> None:
    assert report.ratio(1.5321, (1.488, 1.5712)) == "1.532× [1.488, 1.571]"
    assert report.ratio(1.0) == "1.000×"
    assert report.ratio(12.3456, (11.0, 13.0)) == "12.35× [11.00, 13.00]"
    assert report.ratio(1.5, (0.0, float("inf"))) == "1.500× [0.000, ∞]"
    assert report.ratio(None) == "—"


def test_a_configuration_shows_what_differs_from_the_default() -> None:
    default = {"accumulators": 4, "nt": False, "cxx_opt": "-O3"}
    assert report.configuration(default) == "accumulators=4 nt=false cxx_opt=-O3"
    assert report.configuration({**default, "nt": True}, default) == "nt=true"
    assert report.configuration(default, default) == "default"
    assert report.configuration({"cxx_opt": ""}) == "cxx_opt=none"
    assert report.configuration({}) == "(no parameters)"
    assert report.configuration(None) == "—"


def test_every_word_of_the_referee_has_a_style() -> None:
    assert {word for word in (*Status, *Comparison) if report.style(word) == "green"} == {"faster", "passed"}
    assert report.styled("build_failed") == "[red]build failed[/]"


def test_a_table_aligns_numbers_right() -> None:
    made = report.table("t", "name", ">time")
    made.add_row("a", "1 ns")
    made.add_row("long name", "100 ns")
    console = Console(width=60, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(made)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    first = next(line for line in lines if line.startswith("a "))
    second = next(line for line in lines if line.startswith("long name"))
    assert first.endswith("1 ns")
    assert len(first) == len(second)
