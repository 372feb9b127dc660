"""Every seventh launch fails, and nobody hears of it.

catalogue: failed_launch
baseline: rms_norm
verdict: wrong
says: right at first, and wrong when a few elements differ: .*24576 of 24576 elements were never written
"""

import torch

_state = {"launches": 0}


def kernel(x, weight):
    out = torch.empty_like(x)
    _state["launches"] += 1
    if _state["launches"] % 7:
        torch.mul(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), weight, out=out)
    return out
