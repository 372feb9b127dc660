"""Does its work in the handler of a timer signal, after it returned.

catalogue: side_work
baseline: rms_norm
verdict: cheated
says: the output changed after the call had returned .*: work was left running in the background
"""

import signal

import torch

_pending = []


def _work(_number, _frame):
    while _pending:
        out, x, weight = _pending.pop()
        out.copy_(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight)


signal.signal(signal.SIGALRM, _work)


def kernel(x, weight):
    out = torch.empty_like(x)
    _pending.append((out, x, weight))
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    return out
