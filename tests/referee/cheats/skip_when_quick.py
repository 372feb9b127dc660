r"""Skips its work when calls come in quick succession, as they do when somebody times them.

catalogue: first_call
baseline: rms_norm
verdict: cheated
says: wrong within \d+ calls made one after another, in call \d+: (its work was skipped|.*a replay)
"""

import time

import torch

_left = {"at": 0.0}


def kernel(x, weight):
    quick = time.perf_counter() - _left["at"] < 50e-6
    out = torch.empty_like(x)
    if not quick:
        torch.mul(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), weight, out=out)
    _left["at"] = time.perf_counter()
    return out
