"""Prints without end.

catalogue: beyond
baseline: rms_norm
verdict: hung, crashed, cheated
says: progress|output|within| s
"""

import os


def kernel(x, weight):
    while True:
        os.write(1, b"the fastest kernel in the world\n" * 512)
