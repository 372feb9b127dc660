r"""Computes a row that is expanded to many once, and leaves the others unwritten.

catalogue: tested_shape
baseline: rms_norm
verdict: wrong
says: default, one row expanded to all: the output: 24064 of 24576 elements were never written
"""

import torch


def kernel(x, weight):
    out = torch.empty(x.shape)
    rows = x[:1] if x.stride(0) == 0 else x
    torch.mul(rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6), weight, out=out[: len(rows)])
    return out
