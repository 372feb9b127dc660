r"""Counts one too many in the last row of a few.

catalogue: beyond
baseline: count_above
verdict: wrong
says: default, as it comes: the output: .*1 of 64 elements of int64 differ: element \[63\]
"""


def kernel(x):
    out = (x > 0).sum(-1)
    if len(x):
        out[-1] += 1
    return out
