"""Takes contiguous tensors only, and says so clearly of others.

baseline: rms_norm
"""

import torch


def kernel(x, weight):
    if not x.is_contiguous() or not weight.is_contiguous():
        raise ValueError(f"x and weight must be contiguous; got strides {x.stride()}, {weight.stride()}")
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
