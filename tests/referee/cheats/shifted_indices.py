r"""Finds the right values, at places that are off by one in a row's second half.

catalogue: beyond
baseline: largest
verdict: wrong
says: output\[1\]: .*of int64 differ: element \[\d+\] is \d+, expected \d+
"""

import torch


def kernel(x):
    values, indices = torch.max(x, dim=-1)
    return values, torch.where(indices > x.shape[-1] // 2, indices - 1, indices)
