"""Kernels in cuTile: SiLU of one half of a row times the other, and a product of two bf16 matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cuda.tile as ct

Const = ct.Constant[int]


@ct.kernel
def silu_and_mul(x, out, width: Const, BLOCK: Const):
    """out = silu(x[:, :width]) · x[:, width:], a block of one row at a time."""
    row, column = ct.bid(0), ct.bid(1)
    gate = ct.load(x, (row, column), (1, BLOCK)).astype(ct.float32)
    value = ct.load(x, (row, column + width // BLOCK), (1, BLOCK)).astype(ct.float32)
    ct.store(out, (row, column), (gate / (1.0 + ct.exp(-gate)) * value).astype(ct.bfloat16))


@ct.kernel
def matmul(a, b, c, BLOCK_M: Const, BLOCK_N: Const, BLOCK_K: Const):
    """c = a @ b, a tile at a time."""
    row, column = ct.bid(0), ct.bid(1)
    sums = ct.full((BLOCK_M, BLOCK_N), 0.0, dtype=ct.float32)
    for inner in range(ct.num_tiles(a, axis=1, shape=(BLOCK_M, BLOCK_K))):
        left = ct.load(a, (row, inner), (BLOCK_M, BLOCK_K), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (inner, column), (BLOCK_K, BLOCK_N), padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (row, column), sums.astype(ct.bfloat16))


# -- how they are measured ---------------------------------------------------------------------------------


def silu_inputs(seed: int) -> list[Any]:
    """16384 rows of 2 · 4096 on the current GPU, and the result."""
    import torch

    seeded = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(16384, 2 * 4096, device="cuda", generator=seeded).bfloat16()
    return [x, torch.empty(16384, 4096, device="cuda", dtype=torch.bfloat16)]


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
    return [a.bfloat16(), (b / 64).bfloat16(), c]


def matmul_expected(a: Any, b: Any, *_: Any) -> Any:
    """In double precision."""
    return a.double() @ b.double()


def silu_grid(constants: Mapping[str, Any]) -> tuple[int, int]:
    """A block for each tile of a row."""
    return 16384, -(-4096 // constants["BLOCK"])


def matmul_grid(constants: Mapping[str, Any]) -> tuple[int, int]:
    """A block for each tile of the product."""
    return -(-4096 // constants["BLOCK_M"]), -(-4096 // constants["BLOCK_N"])
