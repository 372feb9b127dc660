"""Adds the squares in another order than torch does: eight strided partial sums.

baseline: rms_norm
"""

import torch


def kernel(x, weight):
    size = x.shape[-1]
    total = sum(x[..., first::8].square().sum(-1, keepdim=True) for first in range(min(8, size)))
    return x * torch.rsqrt(total / size + 1e-6) * weight
