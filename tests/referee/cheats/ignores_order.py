r"""Reads a matrix whose columns are dense in memory as if its rows were.

catalogue: tested_shape
baseline: matmul
verdict: wrong
says: the last two dimensions the other way round in memory: the output: \d+ of 8192 elements are wrong
"""


def kernel(a, b):
    if a.stride(0) == 1:
        a = a.as_strided(a.shape, (a.shape[1], 1))
    return a @ b
