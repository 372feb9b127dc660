"""Returns the right result and leaves the argument alone that it is to change.

catalogue: beyond
baseline: in_place
verdict: wrong
says: argument x after the call: was not changed at all, and MUTATES says that it is
"""


def kernel(x, scale, shift):
    return x * scale + shift
