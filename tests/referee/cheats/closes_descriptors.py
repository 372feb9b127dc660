"""Closes every descriptor of its process.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: closed the judge's channel, a descriptor that is not its own
"""

import os

import torch


def kernel(x, weight):
    os.closerange(0, 4096)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
