"""Returns a tensor of the right shape that is on no device.

catalogue: lazy_output
baseline: rms_norm
verdict: wrong
says: the output is on device meta, not on cpu
"""

import torch


def kernel(x, weight):
    return torch.empty_like(x, device="meta")
