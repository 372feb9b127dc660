"""What the benchmarks of row-wise operators share: the backends they compare, and their axes."""

from __future__ import annotations

import torch

import kernelwright as kw
from kernelwright.referee import Benchmark

ALL_BACKENDS = [
    ("cpu", "Kernelwright", ("orange", "-")),
    ("torch", "PyTorch", ("green", "-")),
]
DTYPES = (torch.bfloat16, torch.float32)


def get_supported_backends() -> list[tuple[str, str, tuple[str, str]]]:
    return [one for one in ALL_BACKENDS if kw.is_backend_available(one[0])]


def create_benchmark_config(operator: str, dtype: torch.dtype, width: int) -> Benchmark | None:
    """GB/s over rows at one width, a line a backend; None where no backend is available."""
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
        plot_name=f"{operator.replace('_', '-')}-N{width}-{dtype_name}-GBps",
        args={"dtype": dtype, "N": width},
    )
