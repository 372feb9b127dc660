"""Memory shared with a measuring child, and the structures that lie in it."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright.referee import _layout as layout
from kernelwright.referee import NativeJudge
from kernelwright.referee._child import driver_library
from kernelwright.referee._shared import SharedMemory

SIZE = 1 << 20


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    memory = SharedMemory("test", SIZE, child_may_write=False)
    yield memory
    memory.close()


def test_what_is_put_there_can_be_read_through_the_descriptor(memory: SharedMemory) -> None:
    tensor = torch.arange(100, dtype=torch.float32)
    at = memory.put(tensor, tensor.nbytes)
    with mmap.mmap(memory.descriptor, SIZE, prot=mmap.PROT_READ) as theirs:
        assert theirs[at : at + tensor.nbytes] == tensor.numpy().tobytes()
    assert torch.equal(memory.view(at, tensor.nbytes, torch.float32), tensor)


def test_a_child_cannot_write_what_only_the_parent_may(memory: SharedMemory) -> None:
    with pytest.raises(PermissionError):
        mmap.mmap(memory.descriptor, SIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def test_places_do_not_overlap_and_are_aligned(memory: SharedMemory) -> None:
    places = [(memory.take(size), size) for size in (1, 63, 64, 65, 1000)]
    assert all(at % 64 == 0 for at, _ in places)
    ends = [at + size for at, size in places]
    assert all(end <= at for end, (at, _) in zip(ends, places[1:], strict=False))


def test_released_places_come_again(memory: SharedMemory) -> None:
    kept = memory.take(100)
    top = memory.top
    first = memory.take(1 << 16)
    memory.release(top)
    assert memory.take(1 << 16) == first
    assert kept < first


def test_more_than_there_is_is_refused(memory: SharedMemory) -> None:
    with pytest.raises(MemoryError, match=str(SIZE)):
        memory.take(SIZE + 1)


def test_structures_are_those_of_the_native_driver() -> None:
    native = ctypes.CDLL(str(driver_library()))
    sizes = (ctypes.c_int64 * 7)()
    native.kwr_layout(sizes)
    assert list(sizes) == [layout.CALL_BYTES, *layout.SIZES]


def test_nobody_can_make_it_shorter_or_write_it_by_opening_it_anew(memory: SharedMemory) -> None:
    path = f"/proc/self/fd/{memory.descriptor}"
    with pytest.raises(PermissionError):
        os.truncate(path, 0)
    again = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.write(again, b"x")
        with pytest.raises(PermissionError):
            mmap.mmap(again, SIZE)
    finally:
        os.close(again)


def test_what_a_child_may_write_cannot_be_taken_from_under_us() -> None:
    board = SharedMemory("board", SIZE, child_may_write=True)
    with pytest.raises(PermissionError):
        os.truncate(f"/proc/self/fd/{board.descriptor}", 0)
    board.close()


def test_a_constructor_that_fails_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises((OSError, ValueError, OverflowError)):
        SharedMemory("test", 1 << 62, child_may_write=False)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_child_that_was_stopped_leaves_neither_process_nor_scratch_nor_descriptor() -> None:
    with NativeJudge() as judge:
        warm = judge.pool.child()
        warm.start()
        warm.stop()
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        child = judge.pool.child()
        child.start()
        process, scratch = child.process, child._scratch
        assert process is not None
        assert scratch is not None
        assert process.outcome is None
        child.stop()
        assert process.outcome is not None
        assert not Path(scratch).exists()
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_child_that_waits_to_be_used_has_the_limits_asked_for() -> None:
    with NativeJudge(memory_bytes=8 << 30) as judge:
        judge.pool.get_ready()
        small = judge.pool.child(1 << 30)
        waiting = judge.pool.child()
        try:
            assert (small.memory_bytes, waiting.memory_bytes) == (1 << 30, 8 << 30)
            assert (small.process, waiting.process is None) == (None, False)
            waiting.start()
            assert set(waiting.guards) >= {"user", "network", "memory", "files", "cpu", "code"}
        finally:
            small.stop()
            waiting.stop()


def test_a_judge_leaves_no_process() -> None:
    with NativeJudge() as judge:
        child = judge.pool.child()
        child.start()
        process = child.process
        assert process is not None
    assert process.wait(5.0) is not None
