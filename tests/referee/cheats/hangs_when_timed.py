"""Falls asleep for good in more calls than a check makes.

catalogue: beyond
baseline: rms_norm
verdict: hung
race: yes
says: timed warm: the candidate made no progress: none of its processes used the processor for 2 s
"""

import time

import torch

_state = {"calls": 0}


def kernel(x, weight):
    _state["calls"] += 1
    if _state["calls"] > 300:
        time.sleep(1e6)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
