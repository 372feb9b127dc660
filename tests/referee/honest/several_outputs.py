"""Two outputs in two tensors of their own.

baseline: residual_norm
"""

import torch


def kernel(x, residual, weight):
    total = torch.add(x, residual)
    return torch.nn.functional.rms_norm(total, (total.shape[-1],), weight, eps=1e-6), total
