"""Has no implementation and says so.

catalogue: beyond
baseline: rms_norm
verdict: unsupported
says: says that it does not support this: NotImplementedError: this kernel is not implemented yet
"""


def kernel(x, weight):
    raise NotImplementedError("this kernel is not implemented yet")
