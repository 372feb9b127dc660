"""Leaves a process behind in every call, until nobody else can have one.

catalogue: beyond
baseline: rms_norm
verdict: crashed, cheated
says: running|process|left|Resource|fork
"""

import os
import time

import torch


def kernel(x, weight):
    out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    return out
