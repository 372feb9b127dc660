"""Returns fp64 where fp32 is contracted.

catalogue: beyond
baseline: softmax
verdict: wrong
says: float64|fp64|dtype
"""

import torch


def kernel(x):
    return torch.softmax(x.double(), dim=-1)
