"""Returns nothing but NaN, which every comparison by > lets through.

catalogue: nonfinite
baseline: rms_norm
verdict: wrong
says: the output: every element is NaN
"""

import torch


def kernel(x, weight):
    return torch.full_like(x, float("nan"))
