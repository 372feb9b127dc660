r"""Returns the same buffer in every call, so that a second call overwrites the first one's output.

catalogue: beyond
baseline: rms_norm
verdict: wrong
says: shares storage with the output of an earlier call \(of the call before\)
"""

import torch

_buffers = {}


def kernel(x, weight):
    out = _buffers.setdefault(tuple(x.shape), torch.empty(x.shape, dtype=x.dtype))
    return torch.mul(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), weight, out=out)
