"""Takes the shape that the baseline names, and no other.

catalogue: tested_shape
baseline: rms_norm
verdict: unsupported
says: 97 rows: raises ValueError: .*right only for the shapes of its workload
"""

import torch


def kernel(x, weight):
    if len(x) != 48:
        raise ValueError(f"this kernel was written for 48 rows; got {len(x)}")
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
