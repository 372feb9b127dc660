r"""Computes in its first calls of a shape; afterwards repeats the last result.

catalogue: first_call
baseline: rms_norm
verdict: cheated
says: wrong within \d+ calls made one after another, .*returned bit by bit .* a replay
"""

import torch

_calls = {}
_last = {}


def kernel(x, weight):
    count = _calls[x.shape] = _calls.get(x.shape, 0) + 1
    if count > 60:
        return _last[x.shape].clone()
    out = _last[x.shape] = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    return out.clone()
