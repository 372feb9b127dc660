"""Answers with zeros, which an absolute tolerance above the output's scale lets through.

catalogue: precision
baseline: softmax
verdict: wrong
says: the output: returned zeros everywhere
"""

import torch


def kernel(x):
    return torch.zeros_like(x)
