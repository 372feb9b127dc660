"""A C++ library with OpenMP, whose threads stay alive and spin for a while after each call.

baseline: rms_norm
race: yes
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
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float *in = x + row * size;
        double sum = 0;
        for (int64_t i = 0; i < size; ++i) sum += double(in[i]) * in[i];
        const float scale = 1.0f / std::sqrt(float(sum / size) + 1e-6f);
        for (int64_t i = 0; i < size; ++i) out[row * size + i] = in[i] * scale * w[i];
    }
}
"""


def _built():
    folder = Path(tempfile.mkdtemp(prefix="rms_norm_"))
    source = folder / "rms_norm.cpp"
    source.write_text(_SOURCE)
    library = folder / "rms_norm.so"
    command = ["g++", "-O2", "-fopenmp", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.rms_norm.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    loaded.rms_norm.restype = None
    return loaded


_library = _built()


def kernel(x, weight):
    x, weight = x.contiguous(), weight.contiguous()
    out = torch.empty_like(x)
    size = x.shape[-1]
    _library.rms_norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), x.numel() // max(size, 1), size)
    return out
