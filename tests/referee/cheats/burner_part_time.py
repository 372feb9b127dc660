r"""Leaves a process behind that works a third of the time, to stay below a crude threshold.

catalogue: beyond
baseline: rms_norm
verdict: cheated
race: yes
says: its processes (went on working after the call|used .* in which only the baseline had work)
"""

import os
import time

import torch

if os.fork() == 0:
    while True:
        _until = time.perf_counter() + 0.004
        while time.perf_counter() < _until:
            pass
        time.sleep(0.008)


def kernel(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
