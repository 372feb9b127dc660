"""Cuts its outputs out of one slab and begins again at its start after three of them.

catalogue: beyond
baseline: rms_norm
verdict: wrong
says: shares storage with the output of an earlier call
"""

import torch

_slabs = {}


def kernel(x, weight):
    slab, turn = _slabs.get(tuple(x.shape), (torch.empty(3, *x.shape), 0))
    _slabs[tuple(x.shape)] = slab, (turn + 1) % 3
    out = slab[turn]
    return torch.mul(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), weight, out=out)
