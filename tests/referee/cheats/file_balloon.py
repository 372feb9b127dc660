r"""Makes a file of tebibytes.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: calling it raised OSError: \[Errno 27\] File too large
"""

import tempfile

import torch


def kernel(x, weight):
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 41)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
