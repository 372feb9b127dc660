r"""Returns a view of its input where a copy is wanted.

catalogue: beyond
baseline: transposed
verdict: wrong
says: the output has strides \(1, 160\), the reference's has \(96, 1\)
"""


def kernel(x):
    return x.t()
