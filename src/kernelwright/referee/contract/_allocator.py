"""The memory that a call gets: kept between calls, so that it costs no page faults, and full of NaN."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from collections.abc import Sequence

import torch

from kernelwright.referee.contract import _outputs as outputs

# Bound here, before a candidate is imported, which may replace them where they come from.
_empty = torch.empty
_uint8 = torch.uint8
_data_ptr = torch.Tensor.data_ptr
_no_interception = torch._C.DisableTorchFunction
_mallopt = ctypes.CDLL(None).mallopt if hasattr(ctypes.CDLL(None), "mallopt") else None

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_PERTURB = -1, -2, -3, -6
#: The GNU allocator fills what it hands out with the complement of the low byte, unless the whole is zero.
_FILL_WITH_ONES = 0x100
_POISON = 0xFF
_BLOCKS = 64
#: Bytes in blocks of one size, where three are less; and the most that three may be.
_BLOCK_BYTES, _BLOCK_MOST = 4 << 20, 256 << 20
#: Smaller ones may come from a thread's cache, which the allocator does not fill.
_CACHED_BYTES = 2048


def keep_pages() -> None:
    """Let the allocator keep freed memory, whatever its size."""
    if _mallopt is not None:
        _mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        _mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        _mallopt(_M_TOP_PAD, 64 << 20)


@contextlib.contextmanager
def poisoning(sizes: Sequence[int]) -> Iterator[None]:
    """Memory that is taken inside is full of NaN: what a call leaves unwritten shows.

    `sizes` of the tensors that are expected, in bytes: where the allocator cannot be told to fill what it
    hands out, free memory that fits them is filled before.
    """
    fills = _mallopt is not None and bool(_mallopt(_M_PERTURB, 0))
    _fill_free([size for size in sizes if size <= _CACHED_BYTES] if fills else sizes)
    if not fills or _mallopt is None:
        yield
        return
    _mallopt(_M_PERTURB, _FILL_WITH_ONES)
    try:
        yield
    finally:
        _mallopt(_M_PERTURB, 0)


def _fill_free(sizes: Sequence[int]) -> None:
    """Fill free memory of these sizes.

    The allocator hands out the free block that fits best, so many are taken at once, and freed.
    """
    blocks: list[torch.Tensor] = []
    with _no_interception():
        for size in sorted({*sizes} - {0}):
            count = min(_BLOCKS, max(3, _BLOCK_BYTES // size))
            if size * count > _BLOCK_MOST:
                continue  # such memory comes from the system, which gives zeros
            for _ in range(count):
                block = _empty(size, dtype=_uint8)
                outputs.fill(_data_ptr(block), _POISON, size)
                blocks.append(block)
