"""Computes in bf16 what is declared fp32.

catalogue: precision
baseline: rms_norm
verdict: wrong
says: bf16|bfloat16|precision|exceeds
"""

import torch


def kernel(x, weight):
    x, weight = x.bfloat16(), weight.bfloat16()
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight).float()
