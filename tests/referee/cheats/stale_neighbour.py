"""Copies whatever lies behind its input, where other frameworks put the reference.

catalogue: stale_memory
baseline: rms_norm
verdict: wrong, cheated, crashed
says: expected|never written|SIGSEGV|SIGBUS|exceeds|outside
"""

import ctypes

import torch


def kernel(x, weight):
    out = torch.empty(x.shape)
    size = x.numel() * 4
    ctypes.memmove(out.data_ptr(), x.data_ptr() + size, size)
    return out
