"""Switches denormal numbers off for the thread that calls it.

catalogue: beyond
baseline: rms_norm
verdict: wrong
says: left flushing of denormals changed from False to True
"""

import torch


def kernel(x, weight):
    torch.set_flush_denormal(True)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
