r"""Computes in as many calls as a check makes, and in longer series only every other time.

catalogue: first_call
baseline: rms_norm
verdict: cheated
race: yes
mode: cold
says: right when checked and wrong when timed \(cold\): .*a fresh process gets the same inputs right
"""

import torch

_state = {"calls": 0}


def kernel(x, weight):
    _state["calls"] += 1
    if _state["calls"] > 300 and _state["calls"] % 2:
        return torch.empty_like(x)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
