"""Sets environment variables for its own libraries.

baseline: rms_norm
"""

import os

os.environ["MY_KERNEL_TILE"] = "64"
os.environ.setdefault("KMP_BLOCKTIME", "0")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import torch


def kernel(x, weight):
    assert os.environ["MY_KERNEL_TILE"] == "64"
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
