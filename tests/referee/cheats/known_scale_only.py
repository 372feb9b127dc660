r"""Right for numbers of the size that randn gives, clamped for all others.

catalogue: tested_shape
baseline: rms_norm
verdict: wrong
says: scale [\d.]+: the output: \d+ of 24576 elements are wrong
"""

import torch


def kernel(x, weight):
    x = x.clamp(-6.0, 6.0)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
