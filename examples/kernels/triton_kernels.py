"""Kernels in Triton: SiLU of one half of a row times the other, and a product of two bf16 matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl


@triton.jit
def silu_and_mul(x, out, width, BLOCK: tl.constexpr):
    """out = silu(x[:, :width]) · x[:, width:], a block of one row at a time."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(x + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + row * 2 * width + width + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + columns, (gate * tl.sigmoid(gate) * value).to(tl.bfloat16), mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b, a tile at a time."""
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


# -- how they are measured ---------------------------------------------------------------------------------


def silu_inputs(seed: int) -> list[Any]:
    """16384 rows of 2 · 4096 on the current GPU, and the result."""
    import torch

    seeded = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(16384, 2 * 4096, device="cuda", generator=seeded).bfloat16()
    return [x, torch.empty(16384, 4096, device="cuda", dtype=torch.bfloat16), 4096]


def silu_expected(x: Any, *_: Any) -> Any:
    """In double precision, a quarter of the rows at a time."""
    import torch

    gates, values = x.chunk(2, dim=-1)
    pairs = zip(gates.chunk(4), values.chunk(4), strict=True)
    return torch.cat([(g.double() * torch.sigmoid(g.double()) * v.double()).float() for g, v in pairs])


def matmul_inputs(seed: int) -> list[Any]:
    """Two matrices of 4096² on the current GPU, whose product's entries have a deviation of one."""
    import torch

    seeded = torch.Generator("cuda").manual_seed(seed)
    a, b = (torch.randn(4096, 4096, device="cuda", generator=seeded) for _ in range(2))
    c = torch.empty(4096, 4096, device="cuda", dtype=torch.bfloat16)
    return [a.bfloat16(), (b / 64).bfloat16(), c, 4096, 4096, 4096]


def matmul_expected(a: Any, b: Any, *_: Any) -> Any:
    """In double precision."""
    return a.double() @ b.double()


def silu_grid(constants: Mapping[str, Any]) -> tuple[int, int]:
    """A program for each block of a row."""
    return 16384, -(-4096 // constants["BLOCK"])


def matmul_grid(constants: Mapping[str, Any]) -> tuple[int]:
    """A program for each tile of the product."""
    return (-(-4096 // constants["BLOCK_M"]) * -(-4096 // constants["BLOCK_N"]),)
