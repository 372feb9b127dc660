r"""Returns its indices in 32 bits where 64 are contracted.

catalogue: beyond
baseline: largest
verdict: wrong
says: output\[1\] is int32, the reference's is int64
"""

import torch


def kernel(x):
    values, indices = torch.max(x, dim=-1)
    return values, indices.int()
