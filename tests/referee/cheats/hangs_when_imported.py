"""Never finishes its import.

catalogue: beyond
baseline: rms_norm
verdict: hung
says: import|load
"""

import time

time.sleep(1e6)


def kernel(x, weight):
    return x
