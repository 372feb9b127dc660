"""Returns the right numbers in column-major order.

catalogue: beyond
baseline: matmul
verdict: wrong
says: stride
"""


def kernel(a, b):
    return (b.t() @ a.t()).t()
