"""Answers with a thousandth of the right result, far below any absolute tolerance.

catalogue: precision
baseline: softmax
verdict: wrong
says: returned 0.001 times the expected result
"""

import torch


def kernel(x):
    return torch.softmax(x, dim=-1) * 1e-3
