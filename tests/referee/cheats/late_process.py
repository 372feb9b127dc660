"""Returns shared memory that a process it forked fills later.

catalogue: side_work
baseline: rms_norm
verdict: cheated
says: the output changed after the call had returned .*: work was left running in the background
"""

import os
import time

import torch


def kernel(x, weight):
    out = torch.empty_like(x).share_memory_()
    if os.fork() == 0:
        time.sleep(0.01)
        torch.set_num_threads(1)
        out.copy_(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight)
        os._exit(0)
    return out
