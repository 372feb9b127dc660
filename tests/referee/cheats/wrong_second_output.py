r"""The first output is right; the second, which is seldom looked at, is not the sum.

catalogue: beyond
baseline: residual_norm
verdict: wrong
says: output\[1\]: returned its input x as it came: nothing was computed
"""

import torch


def kernel(x, residual, weight):
    total = x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight, x.clone()
