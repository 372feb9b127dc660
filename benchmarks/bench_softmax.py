"""Softmax: GB/s over rows, native kernels against torch.

python benchmarks/bench_softmax.py
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


def reference_softmax(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Plain torch."""
    return torch.softmax(x, dim=-1, out=out)


# The line "PyTorch" measures what is written above, in place of the operator's own torch implementation.
kw.register_impl("softmax", "torch")(reference_softmax)


@perf_report([create_benchmark_config("softmax", dtype, 4096) for dtype in DTYPES])
def bench_softmax(M: int, backend: str, dtype: torch.dtype, N: int) -> float:
    torch.manual_seed(0)
    arguments = {"x": 2 * torch.randn(M, N).to(dtype)}

    def fn() -> torch.Tensor:
        return kw.ops.softmax(**arguments, backend=backend)

    assert_within_budget(fn(), "softmax", **arguments)
    ms = do_bench(fn)
    return gigabytes_per_second("softmax", ms, **arguments)


if __name__ == "__main__":
    bench_softmax.run(print_data=True)
