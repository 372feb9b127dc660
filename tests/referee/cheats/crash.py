"""Reads address zero.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: SIGSEGV
"""

import ctypes


def kernel(x, weight):
    return ctypes.string_at(0)
