"""Compiles a C++ library with g++ in its first call, and calls it through ctypes.

baseline: rms_norm
needs: g++
"""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch

_SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" void rms_norm(const float *x, const float *w, float *out, int64_t rows, int64_t size) {
    for (int64_t row = 0; row < rows; ++row, x += size, out += size) {
        double sum = 0;
        for (int64_t i = 0; i < size; ++i) sum += double(x[i]) * x[i];
        const float scale = 1.0f / std::sqrt(float(sum / size) + 1e-6f);
        for (int64_t i = 0; i < size; ++i) out[i] = x[i] * scale * w[i];
    }
}
"""
_library = None


def _load():
    global _library
    folder = Path(tempfile.mkdtemp(prefix="rms_norm_"))
    source = folder / "rms_norm.cpp"
    source.write_text(_SOURCE)
    library = folder / "rms_norm.so"
    command = ["g++", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    _library = ctypes.CDLL(str(library))
    _library.rms_norm.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    _library.rms_norm.restype = None


def kernel(x, weight):
    if _library is None:
        _load()
    x, weight = x.contiguous(), weight.contiguous()
    out = torch.empty_like(x)
    size = x.shape[-1]
    _library.rms_norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), x.numel() // max(size, 1), size)
    return out
