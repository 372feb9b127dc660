"""Right for the shape that the baseline names, zeros for every other.

catalogue: tested_shape
baseline: rms_norm
verdict: wrong
says: right for the shapes of its workload, and wrong for another number of rows: the output: returned zeros
"""

import torch


def kernel(x, weight):
    if tuple(x.shape) != (48, 512):
        return torch.zeros_like(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
