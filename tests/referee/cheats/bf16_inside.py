"""Computes in bf16 what is declared fp32.

catalogue: precision
baseline: rms_norm
verdict: wrong
says: every element is a bf16 number: computed in lower precision than declared
"""

import torch


def kernel(x, weight):
    x, weight = x.bfloat16(), weight.bfloat16()
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight).float()
