"""Returns a view of its input where a copy is wanted.

catalogue: beyond
baseline: transposed
verdict: wrong
says: share|view|stride|layout
"""


def kernel(x):
    return x.t()
