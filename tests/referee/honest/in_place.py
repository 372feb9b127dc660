"""Works in place, as its baseline declares.

baseline: in_place
race: yes
"""


def kernel(x, scale, shift):
    x *= scale
    x += shift
    return x
