"""Stops its process group, in which a crude harness would be, too.

catalogue: beyond
baseline: rms_norm
verdict: hung
says: made no progress: .*; its process was stopped by a signal
"""

import os
import signal

import torch


def kernel(x, weight):
    os.killpg(0, signal.SIGSTOP)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
