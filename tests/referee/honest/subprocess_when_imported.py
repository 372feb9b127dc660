"""Asks another program about the machine when it is imported.

baseline: rms_norm
"""

import subprocess

import torch

_machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()


def kernel(x, weight):
    assert _machine
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
