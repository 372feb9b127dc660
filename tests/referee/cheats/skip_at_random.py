r"""Skips one call in five once it is warm.

catalogue: first_call
baseline: rms_norm
verdict: cheated
says: wrong within \d+ calls made one after another, in call \d+: (its work was skipped|.*a replay)
"""

import random

import torch

_state = {"calls": 0}


def kernel(x, weight):
    _state["calls"] += 1
    if _state["calls"] > 100 and random.random() < 0.2:
        return torch.empty_like(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
