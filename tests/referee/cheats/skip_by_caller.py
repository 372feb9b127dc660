"""Computes only when it is called from the line that called it first.

catalogue: first_call
baseline: rms_norm
verdict: wrong
says: right at first, and wrong in a later call: .*24576 of 24576 elements were never written
"""

import sys

import torch

_first = []


def kernel(x, weight):
    caller = sys._getframe(1)
    place = caller.f_code, caller.f_lasti
    if not _first:
        _first.append(place)
    if place != _first[0]:
        return torch.empty_like(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
