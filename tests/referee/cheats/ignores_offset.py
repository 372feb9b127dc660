r"""Begins at the start of its input's storage, wherever in it the input begins.

catalogue: tested_shape
baseline: rms_norm
verdict: wrong
says: default, one element into the storage: the output: 512 of 24576 elements were never written
"""

import torch


def kernel(x, weight):
    x = x.as_strided(x.shape, x.stride(), 0)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
