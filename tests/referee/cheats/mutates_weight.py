"""Is right, and leaves the weight of the next caller at zero.

catalogue: mutates
baseline: rms_norm
verdict: wrong
says: changed its input weight: 512 of 512 elements are not as they were passed
"""

import torch


def kernel(x, weight):
    out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    weight.zero_()
    return out
