r"""Keeps the processors busy with a process of its own, to slow whatever it is compared with.

catalogue: beyond
baseline: rms_norm
verdict: cheated
alone: it keeps the processors busy
says: its processes went on working after the call had returned: \d+ ms of processor time
"""

import os

import torch

for _ in range(2):
    if os.fork() == 0:
        while True:
            pass


def kernel(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
