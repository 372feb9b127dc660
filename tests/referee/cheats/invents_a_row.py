r"""Returns one row where there is none.

catalogue: tested_shape
baseline: softmax
verdict: wrong
says: default, no rows: .*the output has shape \(1, 4096\), the reference's \(0, 4096\)
"""

import torch


def kernel(x):
    if len(x) == 0:
        return torch.full((1, x.shape[-1]), 1.0 / x.shape[-1])
    return torch.softmax(x, dim=-1)
