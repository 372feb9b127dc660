"""Becomes another program that ends well.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: as it comes: the candidate ended its process itself with exit code 0
"""

import os


def kernel(x, weight):
    os.execv("/bin/true", ["true"])
