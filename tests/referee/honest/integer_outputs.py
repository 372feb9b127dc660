"""Finds the place of the largest element first, and takes its value from there.

baseline: largest
"""

import torch


def kernel(x):
    indices = torch.argmax(x, dim=-1)
    return x.gather(-1, indices.unsqueeze(-1)).squeeze(-1), indices
