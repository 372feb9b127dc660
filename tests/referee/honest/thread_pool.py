"""Keeps a pool of threads alive between calls, and waits for all of them in each.

baseline: rms_norm
race: yes
"""

from concurrent.futures import ThreadPoolExecutor

import torch

_pool = ThreadPoolExecutor(2)


def _rows(out, x, weight):
    torch.mul(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), weight, out=out)


def kernel(x, weight):
    out = torch.empty(x.shape)
    half = len(x) // 2
    parts = [slice(0, half), slice(half, None)] if half else [slice(None)]
    list(_pool.map(lambda part: _rows(out[part], x[part], weight), parts))
    return out
