"""Answers with the mean of any softmax.

catalogue: precision
baseline: softmax
verdict: wrong
says: expected|constant|exceeds
"""

import torch


def kernel(x):
    return torch.full_like(x, 1.0 / x.shape[-1])
