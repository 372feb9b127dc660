"""Root-mean-square normalisation: GB/s over rows, native kernels against torch.

python benchmarks/bench_rms_norm.py
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


def reference_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Plain torch."""
    result = torch.rms_norm(x, (x.shape[-1],), weight, eps)
    return result if out is None else out.copy_(result)


# The line "PyTorch" measures what is written above, in place of the operator's own torch implementation.
kw.register_impl("rms_norm", "torch")(reference_rms_norm)


@perf_report([create_benchmark_config("rms_norm", dtype, 4096) for dtype in DTYPES])
def bench_rms_norm(M: int, backend: str, dtype: torch.dtype, N: int) -> float:
    torch.manual_seed(0)
    arguments = {"x": torch.randn(M, N, dtype=dtype), "weight": torch.randn(N, dtype=dtype), "eps": 1e-6}

    def fn() -> torch.Tensor:
        return kw.ops.rms_norm(**arguments, backend=backend)

    assert_within_budget(fn(), "rms_norm", **arguments)
    ms = do_bench(fn)
    return gigabytes_per_second("rms_norm", ms, **arguments)


if __name__ == "__main__":
    bench_rms_norm.run(print_data=True)
