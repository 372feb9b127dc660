r"""Takes the mean over a quarter of each row: close for normal numbers, and not right.

catalogue: precision
baseline: rms_norm
verdict: wrong
says: as it comes: the output: 2\d{4} of 24576 elements are wrong
"""

import torch


def kernel(x, weight):
    part = x[..., ::4]
    return x * torch.rsqrt(part.square().mean(-1, keepdim=True) + 1e-6) * weight
