"""Forks, and its forks fork.

catalogue: beyond
baseline: rms_norm
verdict: crashed, cheated, hung, out_of_memory
says: process|fork|running|Resource|limit
"""

import os
import time


def kernel(x, weight):
    # Bounded, so that a corpus does no harm where a guard is missing.
    for _ in range(10):
        os.fork()
    time.sleep(30)
    return x
