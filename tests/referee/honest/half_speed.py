"""Is right and slow: that is a comparison, not a fault.

baseline: rms_norm
race: yes
comparison: slower
"""

import torch


def kernel(x, weight):
    for _ in range(3):
        out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    return out
