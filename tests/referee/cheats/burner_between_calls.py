r"""Burns processor time in threads whenever it is not being called.

catalogue: beyond
baseline: matmul
verdict: cheated
alone: it keeps the processors busy
says: its processes went on working after the call had returned: \d+ ms of processor time
"""

import threading

import torch

_idle = threading.Event()
_a = torch.randn(256, 256)


def _burn():
    while True:
        _idle.wait()
        torch.mm(_a, _a)


threading.Thread(target=_burn, daemon=True).start()


def kernel(a, b):
    _idle.clear()
    out = a @ b
    _idle.set()
    return out
