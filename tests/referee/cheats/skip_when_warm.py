"""Computes for its first half second, then only hands out memory.

catalogue: first_call
baseline: rms_norm
verdict: cheated, wrong, nondeterministic
says: earlier|replay|timed|skip|never written|same data
"""

import time

import torch

_started = []


def kernel(x, weight):
    if not _started:
        _started.append(time.monotonic())
    if time.monotonic() - _started[0] > 0.5:
        return torch.empty_like(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
