"""Adds noise far below every tolerance, so that no two calls agree.

catalogue: beyond
baseline: softmax
verdict: nondeterministic
says: same call|same data|differ
"""

import torch


def kernel(x):
    out = torch.softmax(x, dim=-1)
    return out * (1 + 6e-8 * torch.randint(-1, 2, out.shape))
