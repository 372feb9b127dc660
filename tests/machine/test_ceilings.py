"""Measured limits are kept by fingerprint, with their spread; a broken file is set aside and said."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings
from kernelwright.machine import ceilings_path
from kernelwright.machine import fingerprint
from kernelwright.machine import load_ceilings
from kernelwright.machine import store_ceilings

WHEN = "2026-01-02T03:04:05+00:00"
COPY = Ceiling(
    "copy",
    value=10e9,
    p05=9e9,
    p95=11e9,
    unit="B/s",
    threads=2,
    tier="avx2",
    when=WHEN,
    level="DRAM",
    stores="nontemporal",
    reads_per_write=2,
    working_set=1 << 30,
)
FLOPS = Ceiling("flops", 5e11, 4e11, 5.5e11, "FLOP/s", 2, "avx512", WHEN, dtype="float32", instruction="fma")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    return tmp_path


def ceilings(*entries: Ceiling) -> Ceilings:
    return Ceilings(fingerprint(), entries, {"load_before": 0.5})


def test_nothing_is_stored_at_first():
    assert load_ceilings() is None


def test_what_is_stored_is_loaded():
    stored = ceilings(COPY, FLOPS)
    path = store_ceilings(stored)
    assert path.name == f"{fingerprint()}.json"
    assert load_ceilings() == stored
    assert load_ceilings("0123456789abcdef") is None


def test_the_spread_is_relative():
    assert COPY.spread == pytest.approx(0.2)


def test_the_best_of_all_tiers_at_the_most_threads_is_found():
    better = replace(COPY, tier="avx512", value=10.5e9)
    single = replace(COPY, threads=1, value=20e9, p95=21e9)
    found = ceilings(COPY, better, single, FLOPS)
    assert found.copy("DRAM", reads_per_write=2) == better
    assert found.copy("DRAM", reads_per_write=2, threads=1) == single
    assert found.copy("DRAM", reads_per_write=1) is None
    assert found.copy("L2", reads_per_write=2) is None
    assert found.read("DRAM") is None
    assert found.flops("float32") == FLOPS
    assert found.flops("float32", tier="avx2") is None
    assert found.flops("float32", tier="avx512", threads=1) is None


def damage_cut(text: str) -> str:
    return text[: len(text) // 2]


def damage_schema(text: str) -> str:
    return text.replace("kernelwright.ceilings", "another")


def damage_newer(text: str) -> str:
    return text.replace('"version": 1', '"version": 99')


def damage_field(text: str) -> str:
    return text.replace('"p05"', '"p5"')


def damage_value(text: str) -> str:
    return text.replace("10000000000.0", "-1.0")


def damage_type(text: str) -> str:
    return text.replace("10000000000.0", '"fast"')


def damage_tier(text: str) -> str:
    return text.replace('"avx2"', '"avx3"')


def damage_entries(text: str) -> str:
    return json.dumps({**json.loads(text), "ceilings": None})


@pytest.mark.parametrize(
    "damage",
    [
        damage_cut,
        damage_schema,
        damage_newer,
        damage_field,
        damage_value,
        damage_type,
        damage_tier,
        damage_entries,
    ],
)
def test_a_broken_file_is_set_aside_and_said(caplog, damage):
    path = store_ceilings(ceilings(COPY))
    broken = damage(path.read_text())
    assert broken != path.read_text()
    path.write_text(broken)
    with caplog.at_level(logging.WARNING):
        assert load_ceilings() is None
    kept = path.with_name(f"{path.name}.broken-1")
    assert kept.read_text() == broken
    assert str(kept) in caplog.text
    assert not path.exists()
    store_ceilings(ceilings(COPY))
    assert load_ceilings() == ceilings(COPY)


def test_the_file_can_be_read_by_a_person():
    store_ceilings(ceilings(FLOPS))
    document = json.loads(ceilings_path().read_text())
    assert document["ceilings"][0] == {
        "quantity": "flops",
        "value": 5e11,
        "p05": 4e11,
        "p95": 5.5e11,
        "unit": "FLOP/s",
        "threads": 2,
        "tier": "avx512",
        "when": WHEN,
        "dtype": "float32",
        "instruction": "fma",
    }
