"""Makes its arguments contiguous, flattens them, and shapes the result back.

baseline: rms_norm
"""

import torch


def kernel(x, weight):
    flat = x.contiguous().view(-1, x.shape[-1])
    out = flat * torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-6) * weight.contiguous()
    return out.view(x.shape)
