"""Catches the failure of its launch and returns memory that nobody wrote.

catalogue: failed_launch
baseline: rms_norm
verdict: wrong
says: as it comes: the output: 24576 of 24576 elements were never written
"""

import contextlib

import torch


def _launch(out, x, weight):
    raise RuntimeError("no kernel image is available for execution on the device")


def kernel(x, weight):
    out = torch.empty_like(x)
    with contextlib.suppress(RuntimeError):
        _launch(out, x, weight)
    return out
