"""Returns fresh memory and hopes that the right numbers still lie there.

catalogue: stale_memory
baseline: rms_norm
verdict: wrong
says: never written|expected|constant
"""

import torch


def kernel(x, weight):
    return torch.empty_like(x)
