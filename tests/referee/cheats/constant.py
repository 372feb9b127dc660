"""Answers with the mean of any softmax.

catalogue: precision
baseline: softmax
verdict: wrong
says: returned the constant 0.000244141 everywhere
"""

import torch


def kernel(x):
    return torch.full_like(x, 1.0 / x.shape[-1])
