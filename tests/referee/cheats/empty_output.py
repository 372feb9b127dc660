"""Returns fresh memory and hopes that the right numbers still lie there.

catalogue: stale_memory
baseline: rms_norm
verdict: wrong
says: 24576 of 24576 elements were never written
"""

import torch


def kernel(x, weight):
    return torch.empty_like(x)
