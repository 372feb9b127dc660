"""Calls a function of the C library through ctypes.

baseline: transposed
"""

import ctypes

import torch

_libc = ctypes.CDLL(None)
_libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def kernel(x):
    turned = x.t().contiguous()
    out = torch.empty(turned.shape, dtype=turned.dtype)
    _libc.memcpy(out.data_ptr(), turned.data_ptr(), turned.numel() * turned.element_size())
    return out
