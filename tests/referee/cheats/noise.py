r"""Adds noise far below every tolerance, so that no two calls agree.

catalogue: beyond
baseline: softmax
verdict: nondeterministic
says: the same again: the same call on the same data gave \d+ of 32768 other elements
"""

import torch


def kernel(x):
    out = torch.softmax(x, dim=-1)
    return out * (1 + 6e-8 * torch.randint(-1, 2, out.shape))
