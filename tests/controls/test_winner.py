"""A winner under controls serves calls where it was proven, and is refused with the reason elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelwright as kw
from kernelwright import winners
from kernelwright.controls import _provenance
from kernelwright.controls import _winner
from kernelwright.controls import Artifact
from kernelwright.controls import config_of
from kernelwright.controls import Controls
from kernelwright.controls import differences
from kernelwright.controls import encode_controls
from kernelwright.controls import explain
from kernelwright.controls import Finalist
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import NativeTarget
from kernelwright.controls import NotStoredError
from kernelwright.controls import PackEntry
from kernelwright.controls import provenance_of
from kernelwright.controls import store_winner
from kernelwright.controls import Validation
from kernelwright.controls import WinnerRefusedError
from kernelwright.machine import Gpu
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Timing
from kernelwright.referee import Verdict

CONTROLS = encode_controls(Controls("gcc", ("-fno-tree-vectorize", "-funroll-loops")))
WON = Finalist(
    "#4", [{"unroll": 1}, CONTROLS], Status.PASSED, "", Comparison.FASTER, 1.2, (1.1, 1.3), 0.01, 4
)


@pytest.fixture(scope="module")
def target() -> NativeTarget:
    return NativeTarget("silu_and_mul", "64x1024", GccSearchSpace(params=False), dtype="fp32")


@pytest.fixture(autouse=True)
def _own_winners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path))


def validated(target: NativeTarget, **changed: Any) -> Validation:
    found = Validation(target.name, (WON,), provenance=provenance_of(target), description=target.describe())
    return replace(found, run="run-1", **changed)


def said_of(target: NativeTarget) -> str:
    """What dispatch says of a call in the winner's bucket."""
    return str(kw.explain("silu_and_mul", torch.randn(64, 2048)))


def test_calls_are_served_by_it_with_its_options(target: NativeTarget) -> None:
    record = store_winner(target, validated(target))
    assert record.configuration == {"unroll": 1, "controls": "-fno-tree-vectorize\n-funroll-loops"}
    assert record.provenance.keys() >= {"source", "compiler", "architecture", "tier"}
    assert (record.evidence["ratio"], record.evidence["run"]) == (1.2, "run-1")
    request = target.kernel.request(record.configuration)
    assert request.extra_flags[-2:] == ("-fno-tree-vectorize", "-funroll-loops")
    assert target.kernel.artifact(record.configuration).code_key == target.build(WON.config).code_key
    x = torch.randn(64, 2048)
    assert "winner" in said_of(target)
    a, b = x.double().chunk(2, dim=-1)
    torch.testing.assert_close(
        kw.ops.silu_and_mul(x).double(), torch.nn.functional.silu(a) * b, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("fact", ["source", "compiler", "architecture"])
def test_it_is_refused_where_it_was_proven_with_another(target: NativeTarget, fact: str) -> None:
    record = store_winner(target, validated(target))
    other = {**record.provenance, fact: "another"}
    winners.store(replace(record, provenance=other))
    assert f"it was proven with {fact} another, here is " in said_of(target)
    del other[fact]
    winners.store(replace(record, provenance=other))
    assert f"it does not say with which {fact} its compiler options were proven" in said_of(target)


def test_what_changed_since_it_was_validated_is_not_stored(target: NativeTarget) -> None:
    older = {**provenance_of(target), "compiler": "g++ 9.4.0 (x86_64-linux-gnu)"}
    with pytest.raises(
        WinnerRefusedError, match=r"won with compiler g\+\+ 9.4.0 .*; here it is g\+\+"
    ) as failure:
        store_winner(target, validated(target, provenance=older))
    assert len(failure.value.reasons) == 1
    lost = replace(WON, comparison=Comparison.SAME)
    with pytest.raises(NotStoredError, match="nothing is stored: no improvement"):
        store_winner(target, validated(target, finalists=(lost,)))
    assert winners.all_records() == ()


def test_only_what_is_proven_of_the_fewest_options_is_stored(target: NativeTarget) -> None:
    fewest = [{}, encode_controls(Controls("gcc", ("-fno-tree-vectorize",)))]
    judged = {"ratio": 1.15, "interval": [1.1, 1.2], "contests": []}
    proven = {"config": fewest, "proven": True, "judged": judged}
    record = store_winner(target, validated(target, minimized=proven))
    assert record.configuration == {"controls": "-fno-tree-vectorize"}
    assert record.evidence["ratio"] == 1.15
    winners.forget("silu_and_mul")
    record = store_winner(target, validated(target, minimized={**proven, "proven": False}))
    assert record.configuration["unroll"] == 1


@pytest.mark.parametrize(("comparison", "stays"), [(Comparison.FASTER, False), (Comparison.SAME, True)])
def test_a_winner_that_serves_already_has_to_be_beaten(
    target: NativeTarget, monkeypatch: pytest.MonkeyPatch, comparison: Comparison, stays: bool
) -> None:
    timing = Timing(1.0, 1.0, 1.0, 9, 0.0)
    contest = Contest(
        "a", "b", "w", Mode.COLD, Regime.PREALLOCATED, comparison, 1.05, (1.0, 1.1), timing, timing, 9
    )  # fmt: skip
    monkeypatch.setattr(
        _winner, "confirm_of", lambda *_, **__: lambda *_: Verdict(Status.PASSED, "", (contest,))
    )
    first = store_winner(target, validated(target))
    other = validated(target, finalists=(replace(WON, config=[{"unroll": 2}, CONTROLS]),))
    if stays:
        with pytest.raises(NotStoredError, match=r"stays: against it, this one is same \(1.050 ×\)"):
            store_winner(target, other)
        assert winners.all_records() == (first,)
    else:
        assert store_winner(target, other).configuration["unroll"] == 2


# -- what a win depends on ---------------------------------------------------------------------------------


class GpuTarget:
    """As one that a GPU runs: named by a file, compiled for an architecture."""

    name = "axpy"
    parameters = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.provider = type("Provider", (), {"tool": "ptxas", "version": "ptxas 13.5"})()

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "ptx", "target": str(self.path), "arch": "sm_90", "provider": {"tool": "ptxas"}}


class Here:
    def __init__(self, driver: str) -> None:
        self.gpus = (Gpu("NVIDIA H200", 1 << 37, driver, "9.0"),)


def test_source_compiler_architecture_and_driver_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "axpy.ptx"
    path.write_text(".version 8.0")
    target: Any = GpuTarget(path)
    monkeypatch.setattr(_provenance.machine, "current", lambda: Here("580.159"))
    proven = provenance_of(target)
    assert proven.keys() == {"source", "compiler", "architecture", "driver"}
    assert (proven["architecture"], proven["driver"]) == ("sm_90 NVIDIA H200", "580.159")
    entry = PackEntry("axpy", "ptxas", b"\x00 of a vendor".hex(), {}, proven)
    assert config_of(entry, target) == entry.config

    path.write_text(".version 8.1")
    target.provider.version = "ptxas 13.6"
    monkeypatch.setattr(_provenance.machine, "current", lambda: Here("590.1"))
    with pytest.raises(WinnerRefusedError, match="the winner axpy is refused") as failure:
        config_of(entry, target)
    changed = [text.split(" ")[3] for text in failure.value.reasons]
    assert changed == ["source", "compiler", "driver"]
    assert "it won with driver 580.159; here it is 590.1" in failure.value.reasons
    assert "controls try" in str(failure.value)


def test_what_is_not_said_counts_as_different() -> None:
    here = {"source": "a", "compiler": "gcc 12", "tier": "avx2"}
    assert differences(here, here) == ()
    assert differences({"source": "a", "tier": "avx2"}, here) == (
        "it does not say which compiler it won with; here it is gcc 12",
    )
    assert differences({**here, "driver": "580"}, here) == ("it won with driver 580; here there is none",)


# -- what controls changed ---------------------------------------------------------------------------------


def test_registers_and_spills_are_shown_before_and_after(tmp_path: Path) -> None:
    before = Artifact(tmp_path / "a", "a", resources={"registers": 255, "spill_stores": 12, "shared": 0})
    after = Artifact(tmp_path / "b", "b", resources={"registers": 128, "spill_stores": 0, "shared": 0})
    assert explain(before, after).lines() == [
        "registers     255 → 128",
        "spill_stores  12 → 0",
        "1 other quantities are the same",
    ]
    more = explain(before, Artifact(tmp_path / "a", "a", resources={"occupancy": 0.5}))
    assert "occupancy     not known → 0.5" in more.lines()
    assert more.lines()[-1] == "note: both are the same binary"


def test_instructions_and_vector_width_are_counted_in_the_disassembly(tmp_path: Path) -> None:
    source = tmp_path / "add.c"
    source.write_text(
        "void add(float *a, const float *b, int n) { for (int i = 0; i < n; i++) a[i] += b[i]; }\n"
    )

    def compiled(name: str, *flags: str) -> Artifact:
        path = tmp_path / name
        command = ["g++", "-shared", "-fPIC", "-nostartfiles", *flags, "-o", str(path), str(source)]
        subprocess.run(command, check=True)
        return Artifact(path, name)

    told = explain(compiled("plain.so", "-O1"), compiled("wide.so", "-O3", "-mavx2"))
    found = {one.name: (one.before, one.after) for one in told.changes}
    assert found["vector_bits"] == (128, 256)
    assert found["with_ymm"][0] == 0
    assert found["with_ymm"][1] > 0
    assert found["instructions"][1] > found["instructions"][0] > 0
    assert "set_avx" in found
