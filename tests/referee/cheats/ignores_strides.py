r"""Takes rows that lie apart in memory for rows that follow each other.

catalogue: tested_shape
baseline: rms_norm
verdict: wrong
says: default, rows apart in memory: the output: 24064 of 24576 elements were never written
"""

import torch


def kernel(x, weight):
    if x.stride(-1) == 1 and x.stride(0) > x.shape[-1]:
        x = x.as_strided(x.shape, (x.shape[-1], 1))
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
