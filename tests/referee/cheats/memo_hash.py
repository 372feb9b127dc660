r"""Remembers results by a hash of all bytes of its arguments, and gives out the same tensor again.

catalogue: replay
baseline: softmax
verdict: wrong
says: the same again: .*shares storage with the output of an earlier call \(of the call before\)
"""

import torch

_known = {}


def kernel(x):
    key = hash(x.numpy().tobytes())
    if key not in _known:
        _known[key] = torch.softmax(x, dim=-1)
    return _known[key]
