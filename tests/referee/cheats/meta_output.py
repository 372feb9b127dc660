"""Returns a tensor of the right shape that is on no device.

catalogue: lazy_output
baseline: rms_norm
verdict: wrong, cheated
says: meta|device
"""

import torch


def kernel(x, weight):
    return torch.empty_like(x, device="meta")
