"""Never finishes its import.

catalogue: beyond
baseline: rms_norm
verdict: hung
says: while it was imported: the candidate made no progress: none of its processes used the processor
"""

import time

time.sleep(1e6)


def kernel(x, weight):
    return x
