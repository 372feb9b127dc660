"""Raises at its ordinary workload.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: IndexError
"""


def kernel(x, weight):
    return [x][len(weight)]
