"""Is compiled by torch at the first call of each shape.

baseline: softmax
"""

import torch


@torch.compile(backend="aot_eager", dynamic=True)
def _softmax(x):
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def kernel(x):
    if 0 in x.shape or not x.isfinite().all():
        return torch.softmax(x, dim=-1)
    return _softmax(x.contiguous())
