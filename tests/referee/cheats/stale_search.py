"""Allocates blocks of the output's size until one holds something that looks like a result.

catalogue: stale_memory
baseline: rms_norm
verdict: wrong
says: 24576 of 24576 elements were never written
"""

import torch


def kernel(x, weight):
    blocks = [torch.empty_like(x) for _ in range(32)]
    for block in blocks:
        if block.isfinite().all() and block.abs().sum() > 0:
            return block
    return blocks[0]
