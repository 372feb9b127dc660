"""Makes a file of tebibytes.

catalogue: beyond
baseline: rms_norm
verdict: crashed, out_of_memory, cheated
says: (?i)file too large|OSError|SIGXFSZ|file
"""

import tempfile

import torch


def kernel(x, weight):
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 41)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
