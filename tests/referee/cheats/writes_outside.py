"""Writes the four bytes behind its input.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: SIGSEGV; in this call, memory right after each of its buffers could not be touched
"""

import ctypes

import torch


def kernel(x, weight):
    ctypes.memset(x.data_ptr() + x.numel() * 4, 0x5A, 4)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
