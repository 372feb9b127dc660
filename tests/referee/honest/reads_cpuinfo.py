"""Looks up the caches of the machine to choose its block size.

baseline: rms_norm
"""

from pathlib import Path

import torch


def _block():
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index0/size").read_text()
    except OSError:
        text = "32K"
    flags = Path("/proc/cpuinfo").read_text()
    return max(1, int(text.strip().rstrip("K")) // 8) * (2 if "avx512f" in flags else 1)


_ROWS = _block()


def kernel(x, weight):
    out = torch.empty(x.shape)
    for first in range(0, len(x), _ROWS):
        part = x[first : first + _ROWS]
        torch.mul(
            part * torch.rsqrt(part.square().mean(-1, keepdim=True) + 1e-6),
            weight,
            out=out[first:][: len(part)],
        )
    return out
