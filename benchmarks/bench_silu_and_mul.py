"""SiLU and multiply: GB/s over rows, native kernels against torch.

python benchmarks/bench_silu_and_mul.py
"""

from __future__ import annotations

import torch

import kernelwright as kw
from kernelwright.referee import assert_within_budget
from kernelwright.referee import do_bench
from kernelwright.referee import gigabytes_per_second
from kernelwright.referee import perf_report
from rows import create_benchmark_config
from rows import DTYPES


def reference_silu_and_mul(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Plain torch."""
    half = x.shape[-1] // 2
    return torch.mul(torch.nn.functional.silu(x[..., :half]), x[..., half:], out=out)


# The line "PyTorch" measures what is written above, in place of the operator's own torch implementation.
kw.register_impl("silu_and_mul", "torch")(reference_silu_and_mul)


@perf_report([create_benchmark_config("silu_and_mul", dtype, 11008) for dtype in DTYPES])
def bench_silu_and_mul(M: int, backend: str, dtype: torch.dtype, N: int) -> float:
    torch.manual_seed(0)
    arguments = {"x": torch.randn(M, 2 * N, dtype=dtype)}

    def fn() -> torch.Tensor:
        return kw.ops.silu_and_mul(**arguments, backend=backend)

    assert_within_budget(fn(), "silu_and_mul", **arguments)
    ms = do_bench(fn)
    return gigabytes_per_second("silu_and_mul", ms, **arguments)


if __name__ == "__main__":
    bench_silu_and_mul.run(print_data=True)
