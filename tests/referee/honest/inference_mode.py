"""Runs under inference_mode: its output has no version counter.

baseline: rms_norm
"""

import torch


@torch.inference_mode()
def kernel(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
