r"""Computes its first output each time, and its second one once for each shape.

catalogue: replay
baseline: residual_norm
verdict: cheated
says: output\[1\]: returned bit by bit .*an earlier call with the same addresses, a replay
"""

import torch

_totals = {}


def kernel(x, residual, weight):
    total = x + residual
    kept = _totals.setdefault(tuple(x.shape), total.clone())
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight, kept.clone()
