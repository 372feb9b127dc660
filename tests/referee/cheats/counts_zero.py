r"""Counts an element that is zero as above it: integers that are off by one, and only there.

catalogue: beyond
baseline: count_above
verdict: wrong
says: wrong when a few elements differ: .*of int64 differ: element \[\d+\] is \d+, expected \d+
"""


def kernel(x):
    return (x >= 0).sum(-1)
