"""SiLU and multiply: GB/s over rows, native kernels against torch.

python benchmarks/bench_silu_and_mul.py
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


def reference_silu_and_mul(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Plain torch."""
    half = x.shape[-1] // 2
    return torch.mul(torch.nn.functional.silu(x[..., :half]), x[..., half:], out=out)


# The line "PyTorch" measures what is written above, in place of the operator's own torch implementation.
kw.register_impl("silu_and_mul", "torch")(reference_silu_and_mul)


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
        plot_name=f"silu-and-mul-N{width}-{dtype_name}-GBps",
        args={"dtype": dtype, "N": width},
    )


@perf_report([create_benchmark_config(dtype, 11008) for dtype in (torch.bfloat16, torch.float32)])
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
