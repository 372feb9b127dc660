"""Sums a product over parts of K, each part by a thread of its own.

baseline: matmul
"""

from concurrent.futures import ThreadPoolExecutor

_pool = ThreadPoolExecutor(2)


def kernel(a, b):
    middle = a.shape[1] // 2
    low = _pool.submit(lambda: a[:, :middle] @ b[:middle])
    high = a[:, middle:] @ b[middle:]
    return low.result() + high
