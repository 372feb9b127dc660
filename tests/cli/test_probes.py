"""The probes do what they claim: sizes that fit their level, bytes that are really moved, sane rates."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import build
from kernelwright import machine
from kernelwright.cli import _probes
from kernelwright.machine import Cache
from kernelwright.machine import Machine
from kernelwright.referee import Mode

NEEDS_COMPILER = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="neither g++ nor clang++ is installed"
)


@pytest.fixture(autouse=True)
def ceilings_file(tmp_path, monkeypatch):
    """Keeps ceilings out of the user's cache, but uses the artifacts that are there."""
    monkeypatch.setattr("kernelwright.machine._ceilings.ceilings_path", lambda name=None: tmp_path / "c.json")


def made_up(threads: int, memory: int, *sizes: tuple[int, int]) -> Machine:
    """A machine whose cache levels have (bytes, instances)."""
    caches = tuple(
        Cache(level, "unified", size, 64, -(-threads // count), count, "sys")
        for level, (size, count) in enumerate(sizes, start=1)
    )
    here = machine.current()
    return Machine(here.cpu, tuple(range(threads)), threads, caches, memory, here.numa_nodes, None)


SERVER = made_up(8, 64 << 30, (48 << 10, 8), (2 << 20, 8), (32 << 20, 1))


@pytest.mark.parametrize("threads", [1, 8])
def test_working_sets_fit_their_level_and_not_the_one_before(threads):
    assert _probes.area_bytes(SERVER, "L1", threads) == (24 << 10) * threads
    assert _probes.area_bytes(SERVER, "L2", threads) == (1 << 20) * threads
    third = _probes.area_bytes(SERVER, "L3", threads)
    if threads == 1:
        assert third == 8 << 20
    else:
        assert third is None  # eight second-level caches hold half of the third
    assert _probes.area_bytes(SERVER, "DRAM", threads) == 128 << 20


def test_an_absurd_last_level_cache_does_not_make_absurd_working_sets():
    small = made_up(2, 1 << 30, (48 << 10, 2), (2 << 20, 2), (480 << 20, 1))
    assert _probes.area_bytes(small, "L3", 2) == 16 << 20
    assert _probes.area_bytes(small, "DRAM", 2) == 128 << 20
    smaller = made_up(2, 256 << 20, (48 << 10, 2), (2 << 20, 2), (480 << 20, 1))
    assert _probes.area_bytes(smaller, "DRAM", 2) == 32 << 20


def test_a_machine_without_a_third_level_has_none_measured():
    here = made_up(4, 4 << 30, (64 << 10, 4), (1 << 20, 1))
    assert _probes.area_bytes(here, "L3", 4) is None
    assert _probes.area_bytes(here, "L2", 4) == 512 << 10  # shared by all four
    assert not [probe for probe in _probes.plan(here, 4) if probe.ceiling.level == "L3"]


@given(st.integers(1, 256), st.integers(1, 3), st.integers(20, 40))
def test_what_is_moved_fits_the_area(threads, streams, log_area):
    area = max((1 << log_area) // (4096 * threads), 1) * 4096 * threads
    moved = _probes.moved_bytes(area, threads, streams)
    assert 0 < moved <= area
    assert moved % (512 * streams * threads) == 0
    assert moved >= area - threads * streams * (1024 + 512)


def test_the_plan_covers_every_level_dtype_and_both_thread_counts():
    features = set().union(*(tier.requires for tier in machine.TIERS)) | {"avx512_vnni"}
    here = replace(SERVER, cpu=replace(SERVER.cpu, features=frozenset(features)))
    probes = list(_probes.plan(here, 8))
    copies = {
        (p.ceiling.level, p.ceiling.stores, p.ceiling.reads_per_write, p.ceiling.threads)
        for p in probes
        if p.ceiling.quantity == "copy"
    }
    for threads in (1, 8):
        for stores in ("plain", "nontemporal"):
            for reads in (1, 2):
                assert {("L1", stores, reads, threads), ("DRAM", stores, reads, threads)} <= copies
    flops = {(p.ceiling.dtype, p.ceiling.tier, p.ceiling.threads) for p in probes if p.ceiling.dtype}
    for tier in ("generic", "avx2", "avx512"):
        assert {("fp32", tier, 1), ("fp32", tier, 8)} <= flops
    assert {("bf16", "avx512_bf16", 8), ("int8", "avx512", 8), ("int8", "avx2", 1)} <= flops
    assert {p.mode for p in probes if p.ceiling.level == "DRAM"} == {Mode.COLD}
    assert probes[0].ceiling.level == "DRAM"


def test_an_old_processor_is_asked_for_nothing_it_cannot_do():
    here = replace(SERVER, cpu=replace(SERVER.cpu, features=frozenset()))
    assert {probe.section for probe in _probes.plan(here, 2)} == {"bandwidth_generic", "arithmetic_generic"}


@pytest.fixture(scope="module")
def libraries():
    """The probes of every tier that can run here, loaded."""
    file = build.read_build_file(_probes.FOLDER)
    wanted = {probe.section for probe in _probes.plan(machine.current(), 2)} | {"bandwidth_generic"}
    requests = [request for request in build.requests_of(file) if request.section.name in wanted]
    return {request.section.name: build.load(build.build(request)) for request in requests}


def call(library: ctypes.CDLL, probe: _probes.Probe, area: np.ndarray) -> int:
    function = getattr(library, probe.symbol)
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    return int(function(probe.call.block, area.ctypes.data))


def aligned(size: int) -> np.ndarray:
    raw = np.random.default_rng(0).integers(0, 256, size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


@NEEDS_COMPILER
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("stores", ["plain", "nontemporal"])
def test_a_copy_really_moves_the_bytes_it_counts(libraries, threads, reads, stores):
    for name in [name for name in libraries if name.startswith("bandwidth")]:
        size = 64 * 4096 * threads
        (probe,) = [
            probe
            for probe in _probes._bandwidth(name.removeprefix("bandwidth_"), "DRAM", size, threads)
            if (probe.ceiling.reads_per_write, probe.ceiling.stores) == (reads, stores)
        ]
        area = aligned(size)
        before = area.copy()
        assert call(libraries[name], probe, area) == 0
        each = int(probe.amount) // (reads + 1) // threads
        written = np.zeros(size, dtype=bool)
        for thread in range(threads):
            base = thread * (size // threads)
            streams = [
                slice(base + i * (each + 1024), base + i * (each + 1024) + each) for i in range(reads + 1)
            ]
            expected = before[streams[0]].copy()
            if reads == 2:
                expected ^= before[streams[1]]
            np.testing.assert_array_equal(area[streams[-1]], expected)
            written[streams[-1]] = True
        np.testing.assert_array_equal(area[~written], before[~written])


@NEEDS_COMPILER
def test_bad_calls_are_refused(libraries):
    probe = next(p for p in _probes._bandwidth("generic", "L1", 1 << 16, 1) if p.symbol == "kw_copy_1_plain")
    area = aligned(1 << 16)
    library = libraries["bandwidth_generic"]
    assert call(library, replace(probe, area=512), area) == 3
    assert call(library, replace(probe, scalar=0), area) == 3
    assert call(library, probe, area[1:]) == 3


@NEEDS_COMPILER
def test_what_fails_or_finds_no_time_is_noted(monkeypatch):
    real = list(_probes.plan(machine.current(), 1))
    broken = replace(next(p for p in real if p.ceiling.level == "L1"), symbol="kw_missing")
    monkeypatch.setattr(_probes, "plan", lambda here, most: iter([broken]))
    measurement = _probes.measure()
    assert measurement.ceilings.entries == ()
    assert any("kw_missing" in note for note in measurement.notes)
    monkeypatch.setattr(_probes, "plan", lambda here, most: iter([replace(broken, symbol="kw_read")]))
    measurement = _probes.measure(deadline_s=0.0)
    assert measurement.late == 1
    assert any("found no time" in note for note in measurement.notes)


@NEEDS_COMPILER
def test_a_probe_that_does_not_build_is_noted(monkeypatch, tmp_path):
    for name in ("build.toml", "bandwidth.cpp", "arithmetic.cpp"):
        (tmp_path / "probes").mkdir(exist_ok=True)
        shutil.copy(_probes.FOLDER / name, tmp_path / "probes" / name)
    shutil.copytree(_probes.FOLDER.parent / "include", tmp_path / "include")
    (tmp_path / "probes" / "arithmetic.cpp").write_text("#error broken on purpose\n")
    monkeypatch.setattr(_probes, "FOLDER", tmp_path / "probes")
    chosen = next(p for p in _probes.plan(machine.current(), 1) if p.section == "arithmetic_generic")
    monkeypatch.setattr(_probes, "plan", lambda here, most: iter([chosen]))
    measurement = _probes.measure()
    assert measurement.ceilings.entries == ()
    assert any("broken on purpose" in note for note in measurement.notes)


@pytest.mark.serial
@NEEDS_COMPILER
def test_this_machine_is_measured_and_the_numbers_make_sense():
    said: list[str] = []
    measurement = _probes.measure(deadline_s=240.0, say=said.append)
    found = measurement.ceilings
    assert measurement.late == 0
    assert len(found.entries) == len(list(_probes.plan(machine.current(), machine.current().threads)))
    for entry in found.entries:
        assert 0 < entry.p05 <= entry.value <= entry.p95
        assert entry.when
    first, memory = found.copy("L1", stores="plain", threads=1), found.copy("DRAM", threads=1)
    assert first is not None
    assert memory is not None
    assert first.value > memory.value
    assert 1e9 < memory.value < 1e12
    peak = found.flops("fp32", threads=1)
    assert peak is not None
    assert 1e9 < peak.value < 1e12
    generic = found.flops("fp32", tier="generic", threads=1)
    assert generic is not None
    assert peak.value >= generic.value
    assert found.conditions["load_before"] is not None
    assert len(said) > 5
    machine.store_ceilings(found)
    assert machine.load_ceilings() == found
