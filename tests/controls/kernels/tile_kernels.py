"""Kernels in cuTile: SiLU of one half of a row times the other, and a product of two bf16 matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cuda.tile as ct

Const = ct.Constant[int]


@ct.kernel
def silu_and_mul(x, out, width: Const, BLOCK: Const):
    row, column = ct.bid(0), ct.bid(1)
    gate = ct.load(x, (row, column), (1, BLOCK)).astype(ct.float32)
    value = ct.load(x, (row, column + width // BLOCK), (1, BLOCK)).astype(ct.float32)
    ct.store(out, (row, column), (gate / (1.0 + ct.exp(-gate)) * value).astype(ct.bfloat16))


@ct.kernel
def matmul(a, b, c, BLOCK_M: Const, BLOCK_N: Const, BLOCK_K: Const):
    row, column = ct.bid(0), ct.bid(1)
    sums = ct.full((BLOCK_M, BLOCK_N), 0.0, dtype=ct.float32)
    for inner in range(ct.num_tiles(a, axis=1, shape=(BLOCK_M, BLOCK_K))):
        left = ct.load(a, (row, inner), (BLOCK_M, BLOCK_K), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (inner, column), (BLOCK_K, BLOCK_N), padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (row, column), sums.astype(ct.bfloat16))


def silu_case(constants: Mapping[str, Any], rows: int = 16384, width: int = 4096) -> Any:
    """Arguments, what must come out, and the grid."""
    import torch

    from kernelwright.controls import GpuCase

    x = torch.randn(rows, 2 * width, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    x = x.bfloat16()
    out = torch.empty(rows, width, device="cuda", dtype=torch.bfloat16)
    gate, value = x.double().chunk(2, dim=-1)
    expected = gate * torch.sigmoid(gate) * value
    return GpuCase((x, out), (out,), (expected,), (rows, -(-width // constants["BLOCK"]), 1))


def matmul_case(constants: Mapping[str, Any], size: int = 4096) -> Any:
    """As above; the entries of the product have a deviation of one."""
    import torch

    from kernelwright.controls import GpuCase

    seeded = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", generator=seeded) for _ in range(2))
    a, b = a.bfloat16(), (b / size**0.5).bfloat16()
    c = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    grid = (-(-size // constants["BLOCK_M"]), -(-size // constants["BLOCK_N"]), 1)
    return GpuCase((a, b, c), (c,), (a.double() @ b.double(),), grid)
