"""Loading: quick, private, and with one OpenMP in the process."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.build import build
from kernelwright.build import BuildRequest
from kernelwright.build import load

Kernel = Callable[..., BuildRequest]

THREADED = """
#include <omp.h>
#include "kw/abi.h"
KW_EXPORT int scale(int threads) {
  int seen = 0;
#pragma omp parallel num_threads(threads)
#pragma omp atomic
  ++seen;
  return seen;
}
"""


def test_a_library_is_loaded_once(kernel: Kernel) -> None:
    made = build(kernel())
    assert load(made) is load(dataclasses.replace(made, cached=True))


def test_only_exported_functions_can_be_seen(kernel: Kernel) -> None:
    library = load(build(kernel()))
    assert library.scale
    with pytest.raises(AttributeError):
        library._Z12not_exportedd  # noqa: B018
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library._name], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["scale"]


def test_two_builds_of_one_kernel_live_side_by_side(kernel: Kernel) -> None:
    libraries = [load(build(kernel(macros={"KW_FACTOR": factor}))) for factor in (2, 3)]
    for library in libraries:
        library.scale.restype = ctypes.c_double
        library.scale.argtypes = [ctypes.c_double]
    assert [library.scale(1.0) for library in libraries] == [3.0, 4.0]


def test_a_missing_library_says_so(kernel: Kernel, tmp_path: Path) -> None:
    made = dataclasses.replace(build(kernel()), library=tmp_path / "gone.so")
    with pytest.raises(OSError, match=r"gone\.so"):
        load(made)


def test_fast_math_does_not_turn_denormals_off_for_the_process(kernel: Kernel) -> None:
    """Start-up code that g++ links with -ffast-math would do so in the thread that loads the library."""
    code = "import sys, ctypes; ctypes.CDLL(sys.argv[1]); print(5e-324 * 3 / 3)"
    for flag in ("-ffast-math", "-Ofast"):
        made = build(kernel(extra_flags=(flag,)))
        done = subprocess.run(
            [sys.executable, "-c", code, made.library], capture_output=True, text=True, check=True
        )
        assert float(done.stdout) == 5e-324, f"{flag} changed the arithmetic of the process"


@pytest.mark.parametrize("first", ["torch", "kernel"])
def test_one_openmp_serves_torch_and_kernels(kernel: Kernel, first: str) -> None:
    made = build(kernel(source=THREADED))
    code = f"""
import ctypes, sys
def kernel(): return ctypes.CDLL(sys.argv[1])
if {first!r} == "torch": import torch
library = kernel()
assert library.scale(2) == 2
import torch
torch.ones(1 << 20).sum()
assert library.scale(3) == 3
maps = open("/proc/self/maps").read().splitlines()
print(*sorted({{line.split()[-1] for line in maps if "omp" in line.rpartition("/")[2]}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, made.library], capture_output=True, text=True, check=True, env=os.environ
    )
    runtimes = done.stdout.split()
    assert len(runtimes) == 1, f"more than one OpenMP is loaded: {runtimes}"
    if first == "torch":
        assert "/torch/lib/" in runtimes[0]


@pytest.mark.serial
def test_loading_from_the_store_takes_under_20_ms(kernel: Kernel) -> None:
    from kernelwright.build import find

    times = []
    for factor in range(5):
        request = kernel(macros={"KW_FACTOR": factor}, source=THREADED)
        build(request)
        start = time.perf_counter()
        made = find(request)
        assert made is not None
        load(made).scale  # noqa: B018
        times.append(time.perf_counter() - start)
    # The least: what else the machine does is not what is tested.
    assert min(times) < 0.020
