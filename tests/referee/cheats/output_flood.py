r"""Prints without end.

catalogue: beyond
baseline: rms_norm
verdict: hung
says: had not answered after \d+ s; it flooded its standard output \('the fastest kernel in the world'\)
"""

import os


def kernel(x, weight):
    while True:
        os.write(1, b"the fastest kernel in the world\n" * 512)
