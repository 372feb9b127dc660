"""Root-mean-square normalisation: GB/s over rows, native kernels against torch.

python benchmarks/bench_rms_norm.py
"""

from __future__ import annotations

import torch

import kernelwright as kw
from kernelwright.referee import assert_within_budget
from kernelwright.referee import Benchmark
from kernelwright.referee import do_bench
from kernelwright.referee import gigabytes_per_second
from kernelwright.referee import perf_report

ALL_BACKENDS = [
    ("cpu", "Kernelwright", ("orange", "-")),
    ("torch", "PyTorch", ("green", "-")),
]


def get_supported_backends() -> list[tuple[str, str, tuple[str, str]]]:
    return [one for one in ALL_BACKENDS if kw.is_backend_available(one[0])]


def reference_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Plain torch."""
    result = torch.rms_norm(x, (x.shape[-1],), weight, eps)
    return result if out is None else out.copy_(result)


# The line "PyTorch" measures what is written above, in place of the operator's own torch implementation.
kw.register_impl("rms_norm", "torch")(reference_rms_norm)


def create_benchmark_config(dtype: torch.dtype, width: int) -> Benchmark | None:
    available = get_supported_backends()
    if not available:
        return None
    backends, names, styles = zip(*available, strict=True)
    dtype_name = str(dtype).removeprefix("torch.")
    return Benchmark(
        x_names=["M"],
        x_vals=[1, 32, 512, 4096],
        line_arg="backend",
        line_vals=list(backends),
        line_names=list(names),
        styles=list(styles),
        ylabel="GB/s",
        plot_name=f"rms-norm-N{width}-{dtype_name}-GBps",
        args={"dtype": dtype, "N": width},
    )


@perf_report([create_benchmark_config(dtype, 4096) for dtype in (torch.bfloat16, torch.float32)])
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
