r"""Sums squares in bf16, of which eight bits are left, where inputs are bf16 and sums are fp32.

catalogue: precision
baseline: rms_norm_bf16
verdict: wrong
says: as it comes: the output: (relative L2 error \S+ exceeds|\d+ of 24576 elements are wrong)
"""

import torch


def kernel(x, weight):
    total = torch.zeros_like(x[:, :1])
    for part in x.square().split(2, dim=-1):
        total = total + part.sum(-1, keepdim=True)
    mean = total / x.shape[-1]
    return (x.float() * torch.rsqrt(mean.float() + 1e-6)).to(x.dtype) * weight
