"""Caches are emptied, and how is said."""

from __future__ import annotations

import numpy as np
import pytest

from kernelwright import machine
from kernelwright.errors import NoCompilerError
from kernelwright.referee.contract import _flush
from kernelwright.referee.contract._flush import Flusher
from kernelwright.referee.contract._flush import native_flush


def test_flushing_leaves_memory_as_it_is_whatever_its_bounds() -> None:
    data = np.arange(10_001, dtype=np.uint8)
    kept = data.copy()
    flusher = Flusher(native_flush())
    address = data.ctypes.data
    flusher.flush([(address + 3, 1), (address + 63, 130), (address, data.nbytes), (address, 0)])
    assert np.array_equal(data, kept)
    assert flusher.exact
    assert "clflush" in flusher.said


def test_each_span_is_flushed() -> None:
    seen: list[tuple[int, int]] = []
    Flusher(lambda address, count: seen.append((address, count))).flush([(64, 10), (4096, 200)])
    assert seen == [(64, 10), (4096, 200)]


def test_without_a_compiler_other_memory_is_walked_through_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: object, **__: object) -> None:
        raise NoCompilerError("install one")

    monkeypatch.setattr(_flush.build, "build", none)
    assert native_flush.__wrapped__() is None

    class Small:
        cold_bytes = 8 << 20
        llc_bytes = 2 << 20

    class Large:
        cold_bytes = 1 << 40
        llc_bytes = 1 << 30

    monkeypatch.setattr(machine, "current", Small)
    small = Flusher(None)
    small.flush([(0, 0)])
    assert not small.exact
    assert small.said == "8 MiB of other memory walked through before, for want of a compiler"
    monkeypatch.setattr(machine, "current", Large)
    assert Flusher(None).said.endswith("the last-level cache holds 1024 MiB and may have kept some of them")
