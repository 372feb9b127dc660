"""Returns a Parameter, which is no plain tensor.

catalogue: lazy_output
baseline: rms_norm
verdict: wrong
says: is a torch.nn.parameter.Parameter, not exactly a torch.Tensor
"""

import torch


def kernel(x, weight):
    return torch.nn.Parameter(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight)
