"""Copies whatever lies behind its input, where other frameworks put the reference.

catalogue: stale_memory
baseline: rms_norm
verdict: crashed
says: SIGSEGV; in this call, memory right after each of its buffers could not be touched
"""

import ctypes

import torch


def kernel(x, weight):
    out = torch.empty(x.shape)
    size = x.numel() * 4
    ctypes.memmove(out.data_ptr(), x.data_ptr() + size, size)
    return out
