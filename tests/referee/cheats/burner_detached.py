r"""Leaves a process behind in a session of its own, which burns on after the judge has let go.

catalogue: beyond
baseline: rms_norm
verdict: cheated
alone: it keeps a processor busy
says: its processes went on working after the call had returned: \d+ ms of processor time
"""

import os
import time

import torch

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        _until = time.monotonic() + 20
        while time.monotonic() < _until:
            pass
    os._exit(0)


def kernel(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
