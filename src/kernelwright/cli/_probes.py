"""The ceilings of this machine: native probes, built as kernels are and timed by the referee.

Bandwidths count each byte moved once; what a plain store reads first, to own the line, is not counted.

Working sets: half of the first and of the second cache for each thread; for the third, too much for the two
and at most half of it; for memory, four times the last-level cache but no more than an eighth of the
memory and 128 MiB, written back and dropped from every cache before each pass. Where the last-level cache is
larger than that, plain stores may end in it; non-temporal ones do not.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path

from kernelwright import build
from kernelwright import machine
from kernelwright.build import Artifact
from kernelwright.errors import BuildError
from kernelwright.kernels import cpu
from kernelwright.kernels.cpu import Buffer
from kernelwright.kernels.cpu import CallBlock
from kernelwright.kernels.cpu import NativeCall
from kernelwright.machine import Cache
from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings
from kernelwright.machine import Machine
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import RefereeError
from kernelwright.referee import Timing

FOLDER = Path(cpu.__file__).parent / "probes"
_PAGE = 4096
_SKEW = 1024
_BLOCK = 512
_DRAM_BYTES = 128 << 20
_CACHE_BUDGET_S = 0.05
_DRAM_BUDGET_S = 0.25
#: The tiers that the bandwidth probes are written for.
_WIDE = ("generic", "avx2", "avx512")
_PASSES_BYTES = {"L1": 32 << 20, "L2": 32 << 20, "L3": 16 << 20}

#: Operations asked of a thread in one call: about a millisecond's worth.
_OPERATIONS: Mapping[tuple[str, str], float] = {
    ("generic", "fp32"): 4e7,
    ("avx2", "fp32"): 1e8,
    ("avx512", "fp32"): 2e8,
    ("avx512_bf16", "bf16"): 1.5e8,
    ("avx2", "int8"): 2e8,
    ("avx512", "int8"): 3e8,
    ("vnni", "int8"): 8e8,
}
_INSTRUCTIONS: Mapping[tuple[str, str], str] = {
    ("generic", "fp32"): "mulps, addps",
    ("avx2", "fp32"): "vfmadd",
    ("avx512", "fp32"): "vfmadd",
    ("avx512_bf16", "bf16"): "vdpbf16ps",
    ("avx2", "int8"): "vpmaddubsw",
    ("avx512", "int8"): "vpmaddubsw",
    ("vnni", "int8"): "vpdpbusd",
}


@dataclass(frozen=True)
class Probe:
    """One call to time: a function of a section, what it works on, and the ceiling that comes of it.

    `amount` is what one call moves or computes; `ceiling` has all but the numbers and the time.
    """

    section: str
    symbol: str
    area: int
    scalar: float
    amount: float
    mode: Mode
    budget_s: float
    ceiling: Ceiling

    @property
    def call(self) -> NativeCall:
        """The native call: one buffer, which the probe reads and writes as it likes."""
        block = CallBlock(abi_version=1, tensors=1, threads=self.ceiling.threads)
        block.scalar[0] = self.scalar
        block.tensor[0].ndim = 1
        block.tensor[0].size[0] = self.area
        block.tensor[0].stride[0] = 1
        return NativeCall(bytes(block), (Buffer("area", self.area, True),))


@dataclass(frozen=True)
class Measurement:
    """The ceilings that could be measured, and why the others could not; `late` counts those without time."""

    ceilings: Ceilings
    notes: tuple[str, ...]
    late: int


def measure(
    *, deadline_s: float = 12.0, say: Callable[[str], None] = lambda text: None, threads: int | None = None
) -> Measurement:
    """Build the probes, time them, and return what this machine can do; stores nothing.

    What does not build, fails or finds no time before `deadline_s` is in the notes. Raises NoCompilerError.
    """
    here = machine.current()
    began = time.monotonic()
    probes = list(plan(here, threads or here.threads))
    say("building the probes")
    libraries, notes = _build({probe.section for probe in probes})
    notes += [note for level in ("L2", "L3") if (note := _absent(here, level))]
    found: list[Ceiling] = []
    late = 0
    with (
        machine.watch() as conditions,
        NativeJudge(threads=max(probe.ceiling.threads for probe in probes)) as judge,
    ):
        for number, probe in enumerate(probes, start=1):
            if probe.section not in libraries:
                continue
            if time.monotonic() - began > deadline_s:
                late += 1
                continue
            say(f"measuring {number}/{len(probes)}: {describe(probe.ceiling)}")
            entrant = NativeEntrant(describe(probe.ceiling), libraries[probe.section], probe.symbol)
            try:
                timing = judge.time(
                    entrant,
                    probe.call,
                    mode=probe.mode,
                    budget_s=probe.budget_s,
                    threads=probe.ceiling.threads,
                )
            except RefereeError as error:
                notes.append(str(error))
                continue
            found.append(_fill(probe, timing))
    if late:
        notes.append(f"{late} of {len(probes)} probes found no time within {deadline_s:.0f} s")
    facts = {**conditions.as_dict(), "notes": notes}
    return Measurement(Ceilings(machine.fingerprint(), tuple(found), facts), tuple(notes), late)


def describe(ceiling: Ceiling) -> str:
    """A ceiling in a few words, such as `copy 2:1 DRAM, nontemporal stores, 8 threads`."""
    count = f"{ceiling.threads} thread{'s' if ceiling.threads > 1 else ''}"
    if ceiling.quantity == "copy":
        return f"copy {ceiling.reads_per_write}:1 {ceiling.level}, {ceiling.stores} stores, {count}"
    if ceiling.quantity == "read":
        return f"read {ceiling.level}, {count}"
    return f"{ceiling.dtype} by {ceiling.instruction} ({ceiling.tier}), {count}"


def plan(here: Machine, most: int) -> Iterator[Probe]:
    """Every probe that makes sense on a machine, at `most` threads and at one; what matters most is first."""
    tiers = machine.supported_tiers(here.cpu.features)
    widest = next(tier for tier in reversed(tiers) if tier in _WIDE)
    vnni = _requires("avx512") | {"avx512_vnni"} <= here.cpu.features
    for count in sorted({1, most}, reverse=True):
        for level in ("DRAM", "L3", "L2", "L1"):
            area = area_bytes(here, level, count)
            if area is not None:
                yield from _bandwidth(widest, level, area, count)
            if level == "DRAM":
                for (variant, dtype), operations in _OPERATIONS.items():
                    if variant in tiers or (variant == "vnni" and vnni):
                        yield _arithmetic(variant, dtype, operations * count, count)


def _requires(tier: str) -> frozenset[str]:
    return next(one.requires for one in machine.TIERS if one.name == tier)


def area_bytes(here: Machine, level: str, threads: int) -> int | None:
    """The working set of all threads together for a memory level; None where there is no such level."""
    caches = {f"L{cache.level}": cache for cache in here.caches}
    if level == "DRAM":
        wanted: int | None = min(here.cold_bytes, _DRAM_BYTES)
    elif level not in caches:
        wanted = None
    elif level in ("L1", "L2"):
        wanted = _share(caches[level], threads) // 2 * threads
    else:
        inner = _share(caches["L2"], threads) * threads if "L2" in caches else 0
        wanted = min(max(4 * inner, 4 << 20), _share(caches[level], threads) * threads // 2)
        if wanted < 2 * inner:
            wanted = None  # what lies in it would mostly be found in the second cache
    return None if wanted is None else max(wanted // (_PAGE * threads), 1) * _PAGE * threads


def _share(cache: Cache, threads: int) -> int:
    """What one of `threads` has of the instances of a cache, when they spread over them."""
    return cache.size_bytes // -(-threads // cache.instances)


def _absent(here: Machine, level: str) -> str | None:
    if area_bytes(here, level, 1) is not None:
        return None
    return f"{level} is not measured: this machine shows none, or none larger than the level before it"


def moved_bytes(area: int, threads: int, streams: int) -> int:
    """What one pass of a bandwidth probe moves; the same arithmetic as in bandwidth.cpp."""
    share = area // threads // _PAGE * _PAGE
    return (share - (streams - 1) * _SKEW) // streams // _BLOCK * _BLOCK * streams * threads


def _bandwidth(tier: str, level: str, area: int, threads: int) -> Iterator[Probe]:
    passes = max(1, _PASSES_BYTES.get(level, 0) * threads // area)
    blank = Ceiling("copy", 0, 0, 0, "B/s", threads, tier, "", level=level, working_set=area)
    variants = [("kw_read", 1, replace(blank, quantity="read"))]
    for reads in (1, 2):
        for stores in ("nontemporal", "plain"):
            ceiling = replace(blank, stores=stores, reads_per_write=reads)
            variants.insert(0, (f"kw_copy_{reads}_{stores}", reads + 1, ceiling))
    for symbol, streams, ceiling in variants:
        yield Probe(
            section=f"bandwidth_{tier}",
            symbol=symbol,
            area=area,
            scalar=passes,
            amount=moved_bytes(area, threads, streams) * passes,
            mode=Mode.COLD if level == "DRAM" else Mode.WARM,
            budget_s=_DRAM_BUDGET_S if level == "DRAM" else _CACHE_BUDGET_S,
            ceiling=ceiling,
        )


def _arithmetic(variant: str, dtype: str, operations: float, threads: int) -> Probe:
    ceiling = Ceiling(
        "flops",
        *(0, 0, 0),
        unit="OP/s" if dtype == "int8" else "FLOP/s",
        threads=threads,
        tier="avx512" if variant == "vnni" else variant,
        when="",
        dtype=dtype,
        instruction=_INSTRUCTIONS[variant, dtype],
    )
    return Probe(
        section=f"arithmetic_{variant}",
        symbol=f"kw_{dtype}",
        area=64 * threads,
        scalar=operations,
        amount=operations,
        mode=Mode.WARM,
        budget_s=_CACHE_BUDGET_S,
        ceiling=ceiling,
    )


def _fill(probe: Probe, timing: Timing) -> Ceiling:
    def rate(nanoseconds: float) -> float:
        return probe.amount / nanoseconds * 1e9

    return replace(
        probe.ceiling,
        value=rate(timing.median_ns),
        p05=rate(timing.p95_ns),
        p95=rate(timing.p05_ns),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _build(sections: set[str]) -> tuple[dict[str, Path], list[str]]:
    """The library of each section, and what the compiler said of those that did not build."""
    file = build.read_build_file(FOLDER)
    requests = [request for request in build.requests_of(file) if request.section.name in sections]
    results: Sequence[Artifact | BuildError] = build.build_many(requests)
    libraries, notes = {}, []
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Artifact):
            libraries[request.section.name] = result.library
        else:
            notes.append(str(result))
    return libraries, notes
