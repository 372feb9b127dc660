r"""Leaves its second output unwritten when calls come in quick succession.

catalogue: first_call
baseline: residual_norm
verdict: cheated
says: one after another, in call \d+: (its work was skipped: )?output\[1\]:
"""

import time

import torch

_left = {"at": 0.0}


def kernel(x, residual, weight):
    quick = time.perf_counter() - _left["at"] < 50e-6
    total = x + residual
    out = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight
    if quick:
        total = torch.empty_like(total)
    _left["at"] = time.perf_counter()
    return out, total
