"""Keeps a table a shape: places, not results.

baseline: transposed
"""

from functools import lru_cache

import torch


@lru_cache(maxsize=64)
def _places(rows, columns):
    return torch.arange(rows * columns).view(rows, columns).t().reshape(-1)


def kernel(x):
    rows, columns = x.shape
    return torch.take(x, _places(rows, columns)).view(columns, rows)
