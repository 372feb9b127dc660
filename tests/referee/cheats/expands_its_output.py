r"""Lays its output out as its input is, even where all rows of that are one.

catalogue: beyond
baseline: residual_norm
verdict: wrong
says: default, one row expanded to all: output\[0\] has strides \(0, 1\), the reference's has \(256, 1\)
"""

import torch


def kernel(x, residual, weight):
    total = x + residual
    out = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight
    return (out[:1].expand(out.shape) if x.stride(0) == 0 else out), total
