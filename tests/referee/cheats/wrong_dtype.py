"""Returns fp64 where fp32 is contracted.

catalogue: beyond
baseline: softmax
verdict: wrong
says: the output is fp64, the reference's is fp32
"""

import torch


def kernel(x):
    return torch.softmax(x.double(), dim=-1)
