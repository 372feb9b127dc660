r"""Writes answers of its own to every descriptor of its process.

catalogue: channel
baseline: rms_norm
verdict: cheated
says: wrote to the judge's channel: the child sent a message of \d+ bytes
"""

import contextlib
import json
import os

import torch


def kernel(x, weight):
    answer = json.dumps({"ok": True, "id": 0, "calls": 1000, "own_ns": 1000, "status": "passed"}).encode()
    for name in map(str, range(256)):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.write(int(name), answer + b"\n")
    return torch.zeros_like(x)
