"""Closes every descriptor of its process.

catalogue: beyond
baseline: rms_norm
verdict: crashed, cheated, hung
says: channel|descriptor|closed|ended
"""

import os

import torch


def kernel(x, weight):
    os.closerange(0, 4096)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
