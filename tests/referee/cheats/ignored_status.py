"""Ignores the error code of a copy that refuses more than sixteen rows.

catalogue: failed_launch
baseline: rms_norm
verdict: wrong
says: as it comes: the output: 16384 of 24576 elements were never written
"""

import torch


def _launch(out, x, weight):
    rows = min(16, len(x))
    torch.mul(x[:rows] * torch.rsqrt(x[:rows].square().mean(-1, keepdim=True) + 1e-6), weight, out=out[:rows])
    return 0 if len(x) <= 16 else 1


def kernel(x, weight):
    out = torch.empty_like(x)
    _launch(out, x, weight)
    return out
