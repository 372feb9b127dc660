"""The C ABI of native kernels, as ctypes sees it: the twin of include/kw/abi.h."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import torch

ABI_VERSION = 1
MAX_DIMS = 4
MAX_TENSORS = 6
MAX_SCALARS = 4
FRESH_OUTPUT = 1

DTYPE_CODES: Mapping[torch.dtype, int] = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}

STATUS_TEXT: Mapping[int, str] = {
    1: "the dtype is not supported by this kernel",
    2: "the layout is not supported by this kernel",
    3: "an argument is out of range",
    4: "out of memory",
    5: "the kernel was built for another ABI version",
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_int64 * MAX_DIMS),
        ("stride", ctypes.c_int64 * MAX_DIMS),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    )


class CallBlock(ctypes.Structure):
    """`kw_call`: what describes one call apart from the addresses of its tensors."""

    _fields_ = (
        ("abi_version", ctypes.c_int32),
        ("tensors", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("flags", ctypes.c_int32),
        ("scalar", ctypes.c_double * MAX_SCALARS),
        ("tensor", _Tensor * MAX_TENSORS),
    )


@dataclass(frozen=True)
class View:
    """Sizes and strides (in elements) of a tensor as a kernel sees it."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """Elements from the first to the last one reached, both included."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))


@dataclass(frozen=True)
class Buffer:
    """One buffer of a native call: its bytes reach from the first element to the last."""

    name: str
    nbytes: int
    output: bool


@dataclass(frozen=True)
class NativeCall:
    """Everything about a call but addresses: a `kw_call` as bytes, and its buffers, outputs last."""

    block: bytes
    buffers: tuple[Buffer, ...]


def encode(
    views: Sequence[View], scalars: Sequence[float], *, threads: int = 0, fresh_output: bool = False
) -> CallBlock:
    """A `kw_call` for these tensors and scalars, in the kernel's order."""
    block = CallBlock(abi_version=ABI_VERSION, tensors=len(views), threads=threads)
    block.flags = FRESH_OUTPUT if fresh_output else 0
    for index, value in enumerate(scalars):
        block.scalar[index] = value
    for index, view in enumerate(views):
        entry = block.tensor[index]
        entry.ndim = len(view.sizes)
        entry.dtype = DTYPE_CODES[view.dtype]
        for dim, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
            entry.size[dim] = size
            entry.stride[dim] = stride
    return block


def as_rows(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> View | None:
    """The tensor as (rows, last) with one row stride, or None where it has no such view.

    A last dimension of stride other than one is refused, except where it has at most one element.
    """
    if not shape:
        return None
    last = shape[-1]
    if last > 1 and strides[-1] != 1:
        return None
    rows = 1
    row_stride: int | None = None
    for size, stride in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        if size == 0:
            return View(dtype, (0, last), (last, 1))
        if row_stride is None:
            row_stride = stride
        elif stride != row_stride * rows:
            return None
        rows *= size
    return View(dtype, (rows, last), (last if row_stride is None else row_stride, 1))
