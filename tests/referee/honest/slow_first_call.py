"""Prepares for a second in its first call.

baseline: rms_norm
"""

import time

import torch

_ready = False


def kernel(x, weight):
    global _ready
    if not _ready:
        time.sleep(1.0)
        _ready = True
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
