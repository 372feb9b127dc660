"""Has no implementation and says so.

catalogue: beyond
baseline: rms_norm
verdict: unsupported
says: NotImplementedError|not implemented
"""


def kernel(x, weight):
    raise NotImplementedError("this kernel is not implemented yet")
