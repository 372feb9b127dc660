"""Keeps one workspace for all calls; outputs are fresh.

baseline: rms_norm
race: yes
"""

import torch

_workspace = {}


def kernel(x, weight):
    squares = _workspace.get(x.shape)
    if squares is None:
        squares = _workspace[x.shape] = torch.empty(x.shape)
    torch.mul(x, x, out=squares)
    return x * torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-6) * weight
