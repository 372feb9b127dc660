"""How the kernels in rms_norm.cu and matmul.cu are launched, on what, and what is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelwright import space
from kernelwright.controls import KernelRun

ROWS, HIDDEN, EPS = 16384, 4096, 1e-6
M = N = K = 4096

#: Macros of rms_norm.cu, whose defaults these are.
RMS_NORM_PARAMETERS = space.Space(
    {
        "BLOCK": space.choice([128, 256, 512], default=256),
        "UNROLL": space.choice([1, 2, 4], default=2),
    }
)
#: Macros of matmul.cu, whose defaults these are. Static shared memory holds 48 KiB.
MATMUL_PARAMETERS = space.Space(
    {
        "BM": space.choice([64, 128], default=128),
        "BN": space.choice([64, 128], default=128),
        "BK": space.choice([16, 32, 64], default=32),
        "STAGES": space.choice([2, 3, 4], default=2),
    },
    ["STAGES * (BM + BN) * (BK + 8) * 2 <= 48 * 1024"],
)


def rms_norm_inputs(seed: int) -> list[Any]:
    """The kernel's arguments, in order: x, w, y, how many vectors of eight a row has, eps."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    x, w = (
        torch.randn(size, generator=generator, device="cuda").bfloat16()
        for size in ((ROWS, HIDDEN), (HIDDEN,))
    )
    return [x, w, torch.empty_like(x), HIDDEN // 8, EPS]


def rms_norm_expected(x: Any, w: Any, y: Any, vectors: int, eps: float) -> Any:
    """What y must be: the same in fp32."""
    x, w = x.float(), w.float()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w


def rms_norm_block(parameters: Mapping[str, Any]) -> tuple[int]:
    """Threads of a block, which is one row's."""
    return (parameters.get("BLOCK", 256),)


def matmul_inputs(seed: int) -> list[Any]:
    """The kernel's arguments, in order: a, b (transposed), c, m, n, k; products have a deviation of one."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    a, b = (torch.randn(size, generator=generator, device="cuda") for size in ((M, K), (N, K)))
    c = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
    return [a.bfloat16(), (b / K**0.5).bfloat16(), c, M, N, K]


def matmul_expected(a: Any, b: Any, c: Any, m: int, n: int, k: int) -> Any:
    """What c must be: the same in double precision."""
    return (a.double() @ b.double().T).float()


def matmul_grid(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Blocks along n and m."""
    return N // parameters.get("BN", 128), M // parameters.get("BM", 128)


RMS_NORM = KernelRun(rms_norm_inputs, rms_norm_expected, [2], [ROWS], rms_norm_block)
MATMUL = KernelRun(matmul_inputs, matmul_expected, [2], matmul_grid, [256], atol=4e-3)
