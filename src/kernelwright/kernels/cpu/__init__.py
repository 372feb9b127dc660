"""Native CPU kernels in C++, one folder an operator, one translation unit an ISA tier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kernelwright.dispatch import register_impl
from kernelwright.kernels.cpu._abi import Buffer
from kernelwright.kernels.cpu._abi import CallBlock
from kernelwright.kernels.cpu._abi import DTYPE_CODES
from kernelwright.kernels.cpu._abi import NativeCall
from kernelwright.kernels.cpu._native import BoundKernel
from kernelwright.kernels.cpu._native import NativeKernel
from kernelwright.kernels.cpu._tunables import SPACES

__all__ = [
    "DTYPE_CODES",
    "BoundKernel",
    "Buffer",
    "CallBlock",
    "NativeCall",
    "NativeKernel",
    "connect",
    "native_kernels",
]

#: Above torch, which has rank 0.
_RANK = 10


@cache
def native_kernels() -> Mapping[str, NativeKernel]:
    """Every native CPU kernel, by operator."""
    here = Path(__file__).parent
    return {operator: NativeKernel(operator, here / operator, space) for operator, space in SPACES.items()}


def connect() -> None:
    """Register every native CPU kernel with dispatch."""
    for operator, kernel in native_kernels().items():
        register_impl(
            operator,
            backend="cpu",
            rank=_RANK,
            supports=kernel.supports,
            tunables=kernel.tunables,
            bind=kernel.bind,
            available=kernel.available,
            provenance=kernel.provenance,
        )
