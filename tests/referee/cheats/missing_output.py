"""Returns only the first of two outputs.

catalogue: beyond
baseline: residual_norm
verdict: wrong
says: the output is a tensor, the reference's is a tuple of 2
"""

import torch


def kernel(x, residual, weight):
    total = x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight
