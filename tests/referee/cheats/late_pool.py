"""Hands the work to a thread pool and does not wait for it.

catalogue: side_work
baseline: rms_norm
verdict: cheated
says: the output changed after the call had returned .*: work was left running in the background
"""

from concurrent.futures import ThreadPoolExecutor

import torch

_pool = ThreadPoolExecutor(2)


def _fill(out, x, weight):
    out.copy_(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight)


def kernel(x, weight):
    out = torch.empty_like(x)
    _pool.submit(_fill, out, x, weight)
    return out
