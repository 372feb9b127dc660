"""Kernels in Triton: SiLU of one half of a row times the other, and a product of two bf16 matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl


@triton.jit
def silu_and_mul(x, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(x + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + row * 2 * width + width + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + columns, (gate * tl.sigmoid(gate) * value).to(tl.bfloat16), mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    # Eight rows of tiles at a time, so that what they share of b stays in the L2 cache.
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = tl.program_id(0) // (8 * tiles_n)
    within = tl.program_id(0) % (8 * tiles_n)
    group_m = tl.minimum(tl.cdiv(m, BLOCK_M) - group * 8, 8)
    rows = (group * 8 + within % group_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = (within // group_m) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + (rows % m)[:, None] * k + inner[None, :]
    b_tile = b + inner[:, None] * n + (columns % n)[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        left = tl.load(a_tile, mask=inner[None, :] < k - start, other=0.0)
        right = tl.load(b_tile, mask=inner[:, None] < k - start, other=0.0)
        sums = tl.dot(left, right, sums)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None].to(tl.int64) * n + columns[None, :], sums.to(tl.bfloat16), mask=inside)


def silu_case(constants: Mapping[str, Any], rows: int = 16384, width: int = 4096) -> Any:
    """Arguments, what must come out, and the grid."""
    import torch

    from kernelwright.controls import GpuCase

    x = torch.randn(rows, 2 * width, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    x = x.bfloat16()
    out = torch.empty(rows, width, device="cuda", dtype=torch.bfloat16)
    gate, value = x.double().chunk(2, dim=-1)
    expected = gate * torch.sigmoid(gate) * value
    return GpuCase((x, out, width), (out,), (expected,), (rows, -(-width // constants["BLOCK"]), 1))


def matmul_case(constants: Mapping[str, Any], size: int = 4096) -> Any:
    """As above; the entries of the product have a deviation of one."""
    import torch

    from kernelwright.controls import GpuCase

    seeded = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", generator=seeded) for _ in range(2))
    a, b = a.bfloat16(), (b / size**0.5).bfloat16()
    c = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    tiles = -(-size // constants["BLOCK_M"]) * -(-size // constants["BLOCK_N"])
    return GpuCase((a, b, c, size, size, size), (c,), (a.double() @ b.double(),), (tiles, 1, 1))
