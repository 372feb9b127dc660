"""Drops half of its work when there is only one thread.

catalogue: beyond
baseline: rms_norm
verdict: wrong
says: right on all threads, and wrong on one thread: .*in rows 24 to 47
"""

import torch


def kernel(x, weight):
    out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    if torch.get_num_threads() == 1 and len(x) > 1:
        out[len(x) // 2 :] = 0
    return out
