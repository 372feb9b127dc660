"""The roofline floor: the least time that a call could take here, however clever it is.

A lower bound on time that is to accuse somebody has to be generous. So: every byte counts once, and only at
the rate of the cache level that cannot be avoided; the best bandwidth of any probe and thread count counts;
arithmetic counts at the best rate of any dtype (three bf16 products may stand for one in fp32); and what is
left is divided by `MARGIN`. In the manner of the roofline model (Williams, Waterman, Patterson 2009).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from functools import cache

import torch

from kernelwright import machine
from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings
from kernelwright.ops import Cost
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Timing

#: A time is called impossible when it is below the floor, which is the roofline's time over this.
MARGIN = 2.0
LEVELS = ("L1", "L2", "L3", "DRAM")
#: What the quick probe found is taken for this much more: it is a copy, on one thread, by one function.
_PROBE_SLACK = 2.0
_PROBE_BYTES = {"L1": 16 << 10, "L2": 512 << 10, "DRAM": 64 << 20}
_PROBE_S = 0.004


@dataclass(frozen=True)
class Floor:
    """The least time of one call in nanoseconds, and what binds it, in words; zero where nothing is known."""

    ns: float
    because: str

    def refuted_by(self, time_ns: float) -> str | None:
        """The words of an `impossible` verdict for a call of `time_ns`, or None."""
        if not 0.0 < time_ns < self.ns:
            return None
        return (
            f"a call took {_duration(time_ns)}, but {self.because} takes at least {_duration(self.ns)} here "
            f"(a margin of {MARGIN:g} included)"
        )


def floor_ns(
    cost: Cost, mode: Mode, ceilings: Ceilings | None, threads: int, *, flushed: bool = True
) -> float:
    """The least nanoseconds of one call; see `find_floor`. Zero where nothing is known."""
    return find_floor(cost, mode, ceilings, threads, flushed=flushed).ns


def find_floor(
    cost: Cost, mode: Mode, ceilings: Ceilings | None, threads: int, *, flushed: bool = True
) -> Floor:
    """The least time of one call that moves and computes `cost`.

    Args:
        cost: bytes that have to be read and written once, FLOPs that cannot be saved (zero: not known).
        mode: in `cold`, what is read comes from DRAM; in `warm`, whatever fits the caches may lie there.
        ceilings: rates measured on this machine; None: nothing is known, and the floor is zero.
        threads: threads that may work; a rate measured with fewer is scaled up in proportion.
        flushed: whether a cold call's inputs are known to be in no cache at all; else only that they are
            neither in L1 nor L2, which takes the last-level cache's rate where they fit it.
    """
    if ceilings is None:
        return Floor(0.0, "")
    candidates = [*_memory(cost, mode, ceilings, threads, flushed), *_arithmetic(cost, ceilings, threads)]
    return max(candidates, key=lambda one: one.ns, default=Floor(0.0, ""))


def _memory(cost: Cost, mode: Mode, ceilings: Ceilings, threads: int, flushed: bool) -> list[Floor]:
    """One bound a level: bytes that do not fit the levels nearer than it come through it."""
    here = machine.current()
    capacity = {
        "L1": (here.cache_bytes(1) or 0) * here.cores,
        "L2": (here.cache_bytes(2) or 0) * here.cores,
        "L3": here.llc_bytes,
    }
    found = []
    nearer = 0
    for level in LEVELS:
        moved = max(0, cost.bytes - nearer)
        if mode is Mode.COLD and (level != "DRAM" or flushed):
            # Results may stay in a cache; what is read cannot have been there.
            moved = max(moved, cost.bytes_read)
            if level == "DRAM" and not flushed:
                moved = max(0, cost.bytes_read - capacity["L3"])
        nearer += capacity.get(level, 0)
        rate = best_rate(ceilings, level, threads)
        if moved and rate:
            text = f"moving {_bytes(moved)} through {level} at {rate / 1e9:.1f} GB/s"
            found.append(Floor(moved / rate * 1e9 / MARGIN, text))
    return found


def _arithmetic(cost: Cost, ceilings: Ceilings, threads: int) -> list[Floor]:
    rates = [_scaled(one, threads) for one in ceilings.entries if one.quantity == "flops"]
    rates = [rate for rate in rates if rate > 0]
    if not cost.flops or not rates:
        return []
    rate = max(rates)
    text = f"computing {cost.flops:.3g} FLOP at {rate / 1e9:.1f} GFLOP/s"
    return [Floor(cost.flops / rate * 1e9 / MARGIN, text)]


def best_rate(ceilings: Ceilings, level: str, threads: int) -> float | None:
    """The most bytes a second that any probe moved through a level or one beyond it, for `threads` threads.

    A farther level that a probe found faster (a copy with nontemporal stores, say) proves that the nearer one
    can do as much. None where no level from this one on was probed.
    """
    levels = LEVELS[LEVELS.index(level) :]
    rates = [
        _scaled(one, threads)
        for one in ceilings.entries
        if one.quantity in ("copy", "read") and one.level in levels
    ]
    # A level that was not probed may be as fast as the next nearer one that was.
    if not any(one.level == level for one in ceilings.entries) and level != LEVELS[0]:
        return best_rate(ceilings, LEVELS[LEVELS.index(level) - 1], threads)
    return max(rates, default=None)


def _scaled(one: Ceiling, threads: int) -> float:
    return max(one.value, one.p95) * max(1.0, threads / one.threads)


def share_floor(cost: Cost, share: float) -> Cost:
    """The cost of a call that has to read only `share` of its inputs."""
    return Cost(int(cost.bytes_read * share), cost.bytes_written, cost.flops)


def needed_share(mattered: int, looked_at: int, *, confidence: float = 0.99) -> float:
    """A lower bound on the share of an input that a result depends on, when `mattered` of `looked_at`
    elements drawn at random did (Clopper and Pearson 1934)."""
    if not mattered:
        return 0.0
    from scipy.stats import beta  # a second to import, which few verdicts need

    return float(beta.ppf(1.0 - confidence, mattered, looked_at - mattered + 1))


@cache
def quick_ceilings() -> Ceilings:
    """A rough and generous substitute for stored ceilings: copies by one thread, times the processors.

    Takes some tens of milliseconds. What is said of it goes into the evidence.
    """
    here = machine.current()
    when = datetime.now(UTC).isoformat(timespec="seconds")
    entries = []
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for level, size in _PROBE_BYTES.items():
            rate = _copy_rate(size) * _PROBE_SLACK
            entries.append(
                Ceiling("copy", rate, rate, rate, "B/s", 1, "baseline", when, level=level, stores="plain")
            )
    finally:
        torch.set_num_threads(before)
    return Ceilings(machine.fingerprint(), tuple(entries), {"quick": True, "threads": here.threads})


def ceilings_here() -> tuple[Ceilings, str]:
    """The stored ceilings of this machine, or a quick probe's, and which of the two."""
    stored = machine.load_ceilings()
    if stored is not None:
        return stored, "measured on this machine (kernelwright doctor)"
    return quick_ceilings(), "a quick copy probe, since none are stored"


def _copy_rate(size: int) -> float:
    """Bytes a second, read and written, of the best of several copies of half of `size`."""
    source = torch.zeros(size // 2, dtype=torch.uint8)
    target = torch.empty_like(source)
    target.copy_(source)
    best = 0.0
    began = time.perf_counter()
    while time.perf_counter() - began < _PROBE_S or not best:
        repeats = max(1, (1 << 22) // size)
        start = time.perf_counter_ns()
        for _ in range(repeats):
            target.copy_(source)
        best = max(best, repeats * size / max(1, time.perf_counter_ns() - start) * 1e9)
    return best


def impossible(floor: Floor, timing: Timing) -> str | None:
    """Whether a contestant's median is below the floor: the reason, or None."""
    return floor.refuted_by(timing.median_ns)


def as_facts(floor: Floor, source: str) -> Mapping[str, object]:
    """For evidence: the floor and where its rates come from."""
    return {"floor_ns": round(floor.ns, 1), "because": floor.because, "margin": MARGIN, "ceilings": source}


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def _duration(ns: float) -> str:
    for unit in ("ns", "µs", "ms"):
        if ns < 1000:
            return f"{ns:.3g} {unit}"
        ns /= 1000
    return f"{ns:.3g} s"
