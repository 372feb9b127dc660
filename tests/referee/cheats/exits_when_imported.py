"""Ends the process with exit code 0 as soon as it is imported.

catalogue: channel
baseline: rms_norm
verdict: crashed
says: ended its process itself with exit code 0: sys.exit when importing it
"""

import sys

sys.exit(0)


def kernel(x, weight):
    return x
