"""A CPU library tells what it needs before it runs: widths, mix, spills, and an estimate of its main loop."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.controls import cpu_resources
from kernelwright.errors import FileFormatError

STREAM = """
extern "C" void axpy(float *out, const float *a, const float *b, long n) {
  for (long i = 0; i < n; i++) out[i] += a[i] * b[i];
}
"""
#: More sums than there are registers of 128 bits: 16.
MANY = """
typedef float V __attribute__((vector_size(16)));
extern "C" void many(V *out, const V *in, long n) {
  V sum[SUMS];
#pragma GCC unroll 64
  for (int k = 0; k < SUMS; k++) sum[k] = out[k];
  for (long i = 0; i < n; i++)
#pragma GCC unroll 64
    for (int k = 0; k < SUMS; k++) sum[k] = sum[k] * in[i] + in[i + k];
#pragma GCC unroll 64
  for (int k = 0; k < SUMS; k++) out[k] = sum[k];
}
"""
DIVIDE = """
#include <cmath>
extern "C" float divide(const float *a, long n) {
  float sum = 0;
  for (long i = 0; i < n; i++) sum += std::exp(a[i]) / a[i];
  return sum;
}
"""


def _built(folder: Path, source: str, *flags: str) -> Path:
    (folder / "kernel.cpp").write_text(source)
    library = folder / "kernel.so"
    command = ["g++", "-O3", *flags, "-shared", "-fPIC", "kernel.cpp", "-o", str(library), "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return library


@pytest.mark.parametrize(
    ("flags", "bits"),
    [
        (["-fno-tree-vectorize"], 128),
        (["-mavx2", "-mfma"], 256),
        (["-mavx512f", "-mprefer-vector-width=512"], 512),
    ],
)
def test_the_width_of_vectors_is_that_of_the_main_loop(flags: list[str], bits: int, tmp_path: Path) -> None:
    found = cpu_resources(_built(tmp_path, STREAM, *flags), mca=False)
    assert (found["vector_bits"], found["loop_vector_bits"]) == (bits, bits)
    assert (int(found["zmm"]) > 0) == (bits == 512)
    assert (int(found["fma"]) > 0) == ("-mfma" in flags or "-mavx512f" in flags)
    assert found["multiply"] == 0 or "-fno-tree-vectorize" in flags or "-mavx512f" in flags
    assert sum(int(found[name]) for name in ("scalar", "xmm", "ymm", "zmm")) == found["instructions"]


def test_registers_kept_on_the_stack_are_spills(tmp_path: Path) -> None:
    fits = cpu_resources(_built(tmp_path, MANY, "-DSUMS=4"), mca=False)
    assert (fits["spills"], fits["loop_spills"], fits["loop_reloads"]) == (0, 0, 0)
    spills = cpu_resources(_built(tmp_path, MANY, "-DSUMS=28"), mca=False)
    assert int(spills["loop_spills"]) >= 8
    assert int(spills["loop_reloads"]) >= 8


def test_what_instructions_do_is_counted(tmp_path: Path) -> None:
    found = cpu_resources(_built(tmp_path, DIVIDE, "-fno-math-errno"), mca=False)
    assert (found["divide"], found["libm"], found["call"]) == (1, 1, 1)
    assert found["loops"] == 1
    assert int(found["load"]) > 0
    assert int(found["branch"]) >= 2


@pytest.mark.skipif(shutil.which("llvm-mca") is None, reason="there is no llvm-mca here")
def test_llvm_mca_estimates_the_main_loop(tmp_path: Path) -> None:
    wide = cpu_resources(_built(tmp_path, STREAM, "-mavx2", "-mfma"))
    narrow = cpu_resources(_built(tmp_path, STREAM, "-fno-tree-vectorize"))
    assert wide["mca_processor"] == narrow["mca_processor"] == "skylake"
    # Of each element, three numbers are loaded and one is stored.
    assert (wide["loop_bytes"], narrow["loop_bytes"]) == (8 * 16, 16)
    assert float(wide["mca_bytes_per_cycle"]) > 2 * float(narrow["mca_bytes_per_cycle"])
    assert wide["mca_bytes_per_cycle"] == 8 * 16 / float(wide["mca_cycles"])
    assert cpu_resources(_built(tmp_path, STREAM, "-mavx512f"))["mca_processor"] == "icelake-server"


def test_without_llvm_mca_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = _built(tmp_path, STREAM)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = cpu_resources(library)
    assert "apt install llvm" in str(found["mca_missing"])
    assert "mca_cycles" not in found
    assert "loop_vector_bits" in found


def test_what_is_no_library_is_said(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(FileFormatError, match="not an ELF library"):
        cpu_resources(tmp_path / "text.so")
