"""The roofline floor: what no call can be faster than, and what is not accused."""

from __future__ import annotations

import pytest

from kernelwright import machine
from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings
from kernelwright.ops import Cost
from kernelwright.referee import Mode
from kernelwright.referee.contract._floor import find_floor
from kernelwright.referee.contract._floor import Floor
from kernelwright.referee.contract._floor import floor_ns
from kernelwright.referee.contract._floor import MARGIN
from kernelwright.referee.contract._floor import needed_share
from kernelwright.referee.contract._floor import quick_ceilings
from kernelwright.referee.contract._floor import share_floor

GIB = 1 << 30


def rate(quantity: str, value: float, *, threads: int = 2, **more: object) -> Ceiling:
    unit = "FLOP/s" if quantity == "flops" else "B/s"
    return Ceiling(quantity, value, value, value, unit, threads, "baseline", "", **more)


@pytest.fixture
def ceilings() -> Ceilings:
    speeds = {"L1": 800e9, "L2": 200e9, "L3": 100e9, "DRAM": 20e9}
    memory = [rate("copy", speed, level=level) for level, speed in speeds.items()]
    flops = [rate("flops", 2e11, dtype="fp32"), rate("flops", 4e12, dtype="bf16")]
    return Ceilings("here", (*memory, *flops))


@pytest.fixture(autouse=True)
def _caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores with 32 KiB of L1 and 1 MiB of L2 each, and 8 MiB of L3."""

    class Here:
        cores = threads = 2
        llc_bytes = 8 << 20

        def cache_bytes(self, level: int) -> int:
            return {1: 32 << 10, 2: 1 << 20, 3: 8 << 20}[level]

    monkeypatch.setattr(machine, "current", Here)


def test_cold_inputs_come_from_memory(ceilings: Ceilings) -> None:
    cost = Cost(bytes_read=20_000_000, bytes_written=1000, flops=0)
    assert floor_ns(cost, Mode.COLD, ceilings, 2) == pytest.approx(1e6 / MARGIN)


def test_results_of_a_cold_call_may_stay_in_a_cache(ceilings: Ceilings) -> None:
    written = Cost(bytes_read=0, bytes_written=1 << 20, flops=0)
    assert floor_ns(written, Mode.COLD, ceilings, 2) < (1 << 20) / 100.0
    assert floor_ns(written, Mode.COLD, ceilings, 2) == floor_ns(written, Mode.WARM, ceilings, 2)


def test_warm_data_lie_in_the_nearest_cache_that_holds_them(ceilings: Ceilings) -> None:
    small = Cost(bytes_read=16 << 10, bytes_written=16 << 10, flops=0)
    assert floor_ns(small, Mode.WARM, ceilings, 2) == pytest.approx((32 << 10) / 800 / MARGIN)
    large = Cost(bytes_read=10 << 20, bytes_written=10 << 20, flops=0)
    beyond = (20 << 20) - (64 << 10) - (2 << 20) - (8 << 20)
    assert floor_ns(large, Mode.WARM, ceilings, 2) == pytest.approx(beyond / 20 / MARGIN, rel=0.01)


def test_only_what_exceeds_the_last_cache_counts_where_flushing_is_not_certain(ceilings: Ceilings) -> None:
    cost = Cost(bytes_read=4 << 20, bytes_written=0, flops=0)
    flushed, walked = (find_floor(cost, Mode.COLD, ceilings, 2, flushed=known) for known in (True, False))
    assert flushed.ns == pytest.approx((4 << 20) / 20 / MARGIN)
    assert walked.ns == pytest.approx((4 << 20) / 100 / MARGIN)
    assert "L3" in walked.because


def test_arithmetic_counts_at_the_best_rate_of_any_dtype(ceilings: Ceilings) -> None:
    cost = Cost(bytes_read=1000, bytes_written=1000, flops=4_000_000_000)
    found = find_floor(cost, Mode.WARM, ceilings, 2)
    assert found.ns == pytest.approx(1e6 / MARGIN)
    assert "4e+09 FLOP" in found.because


def test_more_threads_than_were_probed_may_do_as_much_more(ceilings: Ceilings) -> None:
    cost = Cost(bytes_read=1 << 20, bytes_written=0, flops=0)
    assert floor_ns(cost, Mode.COLD, ceilings, 8) == pytest.approx(floor_ns(cost, Mode.COLD, ceilings, 2) / 4)
    assert floor_ns(cost, Mode.COLD, ceilings, 1) == floor_ns(cost, Mode.COLD, ceilings, 2)


def test_a_level_that_was_not_probed_is_as_fast_as_a_nearer_one() -> None:
    near = Ceilings("here", (rate("copy", 100e9, level="L2"),))
    cost = Cost(bytes_read=1 << 20, bytes_written=0, flops=0)
    assert find_floor(cost, Mode.COLD, near, 2).ns == pytest.approx((1 << 20) / 100 / MARGIN)


def test_nothing_is_impossible_where_nothing_was_measured() -> None:
    cost = Cost(bytes_read=GIB, bytes_written=GIB, flops=10**15)
    assert floor_ns(cost, Mode.COLD, None, 2) == 0.0
    assert floor_ns(cost, Mode.COLD, Ceilings("here", ()), 2) == 0.0
    assert Floor(0.0, "").refuted_by(1.0) is None


def test_a_time_below_the_floor_is_refuted_with_both_times() -> None:
    floor = Floor(2_000_000.0, "moving 64 MiB through DRAM at 20.0 GB/s")
    assert floor.refuted_by(2_000_001.0) is None
    assert floor.refuted_by(1500.0) == (
        "a call took 1.5 µs, but moving 64 MiB through DRAM at 20.0 GB/s takes at least 2 ms here "
        "(a margin of 2 included)"
    )


@pytest.mark.parametrize(
    ("mattered", "least", "most"), [(0, 0.0, 0.0), (16, 0.7, 0.76), (8, 0.2, 0.3), (1, 0.0, 0.01)]
)
def test_the_share_of_an_input_that_matters_is_bounded_from_below(
    mattered: int, least: float, most: float
) -> None:
    assert least <= needed_share(mattered, 16) <= most


def test_only_the_share_that_matters_has_to_be_read() -> None:
    assert share_floor(Cost(1000, 500, 7), 0.25) == Cost(250, 500, 7)


def test_a_quick_probe_is_above_what_a_plain_copy_does_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    import torch

    found = quick_ceilings()
    assert {entry.level for entry in found.entries} == {"L1", "L2", "DRAM"}
    assert found.conditions["quick"]
    x = torch.zeros(1 << 20)
    assert floor_ns(Cost(x.nbytes, x.nbytes, 0), Mode.WARM, found, 1) < 10 * x.nbytes
