"""Writes the four bytes in front of its input.

catalogue: beyond
baseline: rms_norm
verdict: wrong
says: wrote outside of its buffers: 4 bytes before it of x
"""

import ctypes

import torch


def kernel(x, weight):
    ctypes.memset(x.data_ptr() - 4, 0x5A, 4)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
