"""Raises at its ordinary workload.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: calling it raised IndexError: list index out of range
"""


def kernel(x, weight):
    return [x][len(weight)]
