r"""Forks, and its forks fork.

catalogue: beyond
baseline: rms_norm
verdict: crashed
alone: it starts hundreds of processes
says: calling it raised BlockingIOError: .*Resource temporarily unavailable .*fork_bomb.py:\d+
"""

import contextlib
import os
import time


def kernel(x, weight):
    # Bounded, so that a corpus does no harm where a guard is missing. Forks never end by themselves: one that
    # did would make room for another.
    for _ in range(400):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.fork()
            while True:
                time.sleep(60)
    return x
