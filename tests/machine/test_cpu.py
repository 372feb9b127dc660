"""Processor features are those that the operating system enables, whatever /proc says."""

from __future__ import annotations

import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.errors import UnknownNameError
from kernelwright.machine import _cpu
from kernelwright.machine import available_tiers
from kernelwright.machine import current
from kernelwright.machine import supported_tiers
from kernelwright.machine import TIERS
from kernelwright.machine._cpuid import Instructions
from kernelwright.machine._cpuid import instructions
from kernelwright.machine._cpuid import Registers

SRC = Path(__file__).parents[2] / "src"
ALL_FEATURES = {name for bits in _cpu._FEATURE_BITS.values() for name in bits.values()}


def processor(xcr0: int, *, osxsave: bool = True, leaf7: bool = True) -> Instructions:
    """A made-up processor with every feature, under an operating system that enables `xcr0`."""

    def cpuid(leaf: int, subleaf: int) -> Registers:
        if leaf == 0:
            return Registers(7 if leaf7 else 1, 0, 0, 0)
        if leaf == 0x80000000:
            return Registers(0x80000001, 0, 0, 0)
        every = 0xFFFFFFFF
        if leaf == 1 and not osxsave:
            return Registers(every, every, every & ~(1 << 27), every)
        return Registers(every, every, every, every)

    def xgetbv(which: int) -> int:
        assert osxsave, "XGETBV is an illegal instruction without OSXSAVE"
        return xcr0

    return Instructions(cpuid, xgetbv)


SSE, AVX, AVX512, AMX = 0b11, 0b111, 0b1110_0111, 0b11 << 17 | 0b1110_0111


def test_with_all_state_enabled_every_feature_is_there():
    assert _cpu.decode_features(processor(AMX)) == ALL_FEATURES


@pytest.mark.parametrize(
    ("xcr0", "there", "not_there"),
    [
        (
            SSE,
            {"sse4_2", "bmi2", "popcnt"},
            {"avx", "avx2", "fma", "f16c", "avx512f", "amx_tile", "avx_vnni"},
        ),
        (AVX, {"avx2", "fma", "f16c", "avx_vnni"}, {"avx512f", "avx512_bf16", "amx_tile"}),
        (AVX512, {"avx512f", "avx512_bf16", "avx512_fp16"}, {"amx_tile", "amx_bf16", "amx_int8"}),
        (AVX512 & ~(1 << 7), {"avx2"}, {"avx512f", "avx512vl"}),
        (0b101, {"sse2"}, {"avx"}),
    ],
)
def test_a_feature_whose_registers_are_not_saved_is_not_there(xcr0, there, not_there):
    features = _cpu.decode_features(processor(xcr0))
    assert there <= features
    assert not not_there & features


def test_without_osxsave_nothing_beyond_sse_is_there():
    assert supported_tiers(_cpu.decode_features(processor(AMX, osxsave=False))) == ("generic",)


def test_leaves_that_the_processor_does_not_have_are_not_read():
    features = _cpu.decode_features(processor(AMX, leaf7=False))
    assert "avx" in features
    assert "avx2" not in features


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the stub is for x86-64")
def test_the_instructions_are_executed_here():
    executed = instructions()
    assert executed is not None
    assert _cpu.identity(executed)[0] in ("GenuineIntel", "AuthenticAMD", "HygonGenuine", "CentaurHauls")


@pytest.mark.skipif(current().cpu.emulated, reason="/proc/cpuinfo shows another processor here")
def test_what_is_executed_agrees_with_what_linux_lists():
    executed = instructions()
    if executed is None:
        pytest.skip("no page may be made executable here")
    listed = set(_cpu._read_cpuinfo()["flags"].split())
    decoded = _cpu.decode_features(executed)
    assert ALL_FEATURES & listed <= decoded  # Linux may list fewer: an administrator can hide some
    assert decoded >= current().cpu.features


def test_without_executable_pages_linux_is_believed(monkeypatch):
    monkeypatch.setattr(_cpu, "instructions", lambda: None)
    monkeypatch.setattr(
        _cpu, "_read_cpuinfo", lambda: {"vendor_id": "V", "model name": "M", "flags": "sse2 avx avx2 fma"}
    )
    found = _cpu.detect_cpu.__wrapped__()
    assert (found.vendor, found.model, found.source) == ("V", "M", "/proc/cpuinfo")
    assert "fma" in found.features


def test_what_an_administrator_hides_is_not_there(monkeypatch):
    executed = instructions()
    if executed is None or current().cpu.emulated:
        pytest.skip("needs a processor that /proc/cpuinfo describes")
    listed = _cpu._read_cpuinfo()
    kept = " ".join(flag for flag in listed["flags"].split() if flag != "popcnt")
    monkeypatch.setattr(_cpu, "_read_cpuinfo", lambda: {**listed, "flags": kept})
    assert "popcnt" not in _cpu.detect_cpu.__wrapped__().features


def test_a_processor_that_is_not_the_listed_one_is_emulated(monkeypatch):
    if instructions() is None:
        pytest.skip("no page may be made executable here")
    listed = _cpu._read_cpuinfo()
    monkeypatch.setattr(_cpu, "_read_cpuinfo", lambda: {**listed, "model name": "Another", "flags": ""})
    found = _cpu.detect_cpu.__wrapped__()
    assert found.emulated
    assert "sse2" in found.features


@given(st.frozensets(st.sampled_from(sorted(ALL_FEATURES))))
def test_tiers_are_nested_and_generic_is_always_there(features):
    tiers = supported_tiers(features)
    assert tiers == tuple(tier.name for tier in TIERS)[: len(tiers)]
    assert tiers[0] == "generic"


def test_each_tier_needs_what_the_one_below_needs():
    for lower, higher in itertools.pairwise(TIERS):
        assert lower.requires < higher.requires
    assert set().union(*(tier.requires for tier in TIERS)) <= ALL_FEATURES


def test_a_cap_lowers_the_tiers(monkeypatch):
    monkeypatch.delenv("KERNELWRIGHT_TIER", raising=False)
    everything = available_tiers()
    monkeypatch.setenv("KERNELWRIGHT_TIER", "generic")
    assert available_tiers() == ("generic",)
    monkeypatch.setenv("KERNELWRIGHT_TIER", "avx512_bf16")
    assert available_tiers() == everything


def test_a_cap_that_is_no_tier_gets_the_nearest_names(monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_TIER", "avx521")
    with pytest.raises(UnknownNameError, match=r"KERNELWRIGHT_TIER.*avx521.*avx512"):
        available_tiers()


def test_amx_permission_is_reported_exactly_where_there_is_amx():
    cpu = current().cpu
    assert (cpu.amx_permission is not None) == ("amx_tile" in cpu.features)


def under_qemu(model: str) -> dict[str, object]:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-x86_64 is not installed (Debian: apt install qemu-user)")
    code = (
        f"import sys, json; sys.path.insert(0, {str(SRC)!r})\n"
        "from kernelwright import machine\n"
        "cpu = machine.current().cpu\n"
        "print(json.dumps({'tiers': machine.available_tiers(), 'features': sorted(cpu.features),"
        " 'emulated': cpu.emulated, 'model': cpu.model, 'fingerprint': machine.fingerprint()}))\n"
    )
    outcome = subprocess.run(
        [emulator, "-cpu", model, os.path.realpath(sys.executable), "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


@pytest.mark.qemu
@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs this Python, which is not for x86-64")
def test_an_emulated_haswell_has_avx2_but_not_avx512():
    found = under_qemu("Haswell-noTSX")
    assert found["tiers"] == ["generic", "avx2"]
    assert "Haswell" in found["model"]
    assert not [name for name in found["features"] if name.startswith(("avx512", "amx"))]


@pytest.mark.qemu
@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs this Python, which is not for x86-64")
def test_an_emulated_nehalem_is_generic_and_another_machine():
    found = under_qemu("Nehalem")
    assert found["tiers"] == ["generic"]
    assert found["emulated"]
    assert {"sse4_2", "popcnt"} <= set(found["features"])
    assert "avx" not in found["features"]
    assert found["fingerprint"] != under_qemu("Haswell-noTSX")["fingerprint"]
