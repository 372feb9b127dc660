r"""Returns the right numbers in column-major order.

catalogue: beyond
baseline: matmul
verdict: wrong
says: the output has strides \(1, 64\), the reference's has \(128, 1\)
"""


def kernel(a, b):
    return (b.t() @ a.t()).t()
