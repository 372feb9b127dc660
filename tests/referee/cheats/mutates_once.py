"""Spoils one element of its input, and only in some calls.

catalogue: mutates
baseline: residual_norm
verdict: wrong
says: changed its input residual: 1 of 12288 elements are not as they were passed
"""

import torch

_state = {"calls": 0}


def kernel(x, residual, weight):
    total = x + residual
    out = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight
    _state["calls"] += 1
    if _state["calls"] % 5 == 0 and residual.numel():
        residual.view(-1)[-1] += 1.0
    return out, total
