"""Rounds its inputs to the ten bits of mantissa that matrix units like.

catalogue: precision
baseline: matmul
verdict: wrong
says: as if computed in fp16: the relative L2 error is 0.000(2|3)
"""

import torch


def _rounded(x):
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def kernel(a, b):
    return _rounded(a) @ _rounded(b)
