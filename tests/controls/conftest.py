"""CUDA kernels compiled to PTX once, for all tests that need some."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.machine import find_cuda_tool

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
MINE = Path(__file__).parent / "kernels"


@pytest.fixture(scope="session")
def kernel_ptx(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The PTX of a kernel by its name: `rms_norm`, `matmul` or `spills`; any ptxas from 12.9 on reads it."""
    folder = tmp_path_factory.mktemp("ptx")

    def compiled(name: str) -> Path:
        path = folder / f"{name}.ptx"
        if not path.exists():
            source = next(root / f"{name}.cu" for root in (KERNELS, MINE) if (root / f"{name}.cu").exists())
            nvcc = find_cuda_tool("nvcc")
            subprocess.run([nvcc.path, "-ptx", "-arch=sm_90", source, "-o", path], check=True)
            path.write_text(re.sub(r"(?m)^\.version .*$", ".version 8.0", path.read_text()))
        return path

    return compiled
