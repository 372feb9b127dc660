"""Works in blocks of eight rows and leaves out those that remain.

catalogue: tested_shape
baseline: softmax
verdict: wrong
says: wrong for another number of rows: .*elements were never written
"""

import torch


def kernel(x):
    out = torch.empty_like(x)
    whole = len(x) - len(x) % 8
    torch.softmax(x[:whole], dim=-1, out=out[:whole])
    return out
