"""Takes the mean over a quarter of each row: close for normal numbers, and not right.

catalogue: precision
baseline: rms_norm
verdict: wrong
says: exceeds|expected
"""

import torch


def kernel(x, weight):
    part = x[..., ::4]
    return x * torch.rsqrt(part.square().mean(-1, keepdim=True) + 1e-6) * weight
