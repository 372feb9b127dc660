r"""Forks, and its forks fork.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: calling it raised BlockingIOError: .*Resource temporarily unavailable .*fork_bomb.py:\d+
"""

import os
import time


def kernel(x, weight):
    # Bounded, so that a corpus does no harm where a guard is missing.
    for _ in range(10):
        os.fork()
    time.sleep(0.5)
    os.fork()  # By now there are as many as there may be.
    time.sleep(30)
    return x
