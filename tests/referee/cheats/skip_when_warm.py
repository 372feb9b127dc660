r"""Computes for its first twentieth of a second, then only hands out memory.

Which call that ends in is up to the machine: one that is made for the first time is wrong, and in one that is
made again, or one of many, skipping shows. In any case it ends before the check does.

catalogue: first_call
baseline: rms_norm
verdict: wrong, cheated
says: (\d+) of \1 elements were never written|its work was skipped|returned bit by bit .* a replay
"""

import time

import torch

_started = []


def kernel(x, weight):
    if not _started:
        _started.append(time.monotonic())
    if time.monotonic() - _started[0] > 0.05:
        return torch.empty_like(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
