"""Returns the right result and leaves the argument alone that it is to change.

catalogue: beyond
baseline: in_place
verdict: wrong
says: mutat|change|in place|share
"""


def kernel(x, scale, shift):
    return x * scale + shift
