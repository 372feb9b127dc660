"""Turns the NaN and infinities of its input into innocent numbers.

catalogue: nonfinite
baseline: rms_norm
verdict: wrong
says: a few NaN: the output: hides NaN or infinities: 512 of 24576 elements
"""

import torch


def kernel(x, weight):
    x = torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
