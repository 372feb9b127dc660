"""Reads address zero.

catalogue: beyond
baseline: rms_norm
verdict: crashed
says: as it comes: the process of the candidate ended by SIGSEGV
"""

import ctypes


def kernel(x, weight):
    return ctypes.string_at(0)
