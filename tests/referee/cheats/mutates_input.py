"""Squares its input where it lies to save a buffer.

catalogue: mutates
baseline: rms_norm
verdict: wrong
says: changed its input x: 24576 of 24576 elements are not as they were passed
"""

import torch


def kernel(x, weight):
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    x.mul_(scale)
    return x * weight
