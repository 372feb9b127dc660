"""Loads into a template what every measuring child needs: its modules, torch's OpenMP, the native driver.

KERNELWRIGHT_PRELOAD names the libraries; children find them loaded already.
"""

from __future__ import annotations

import collections.abc
import ctypes
import json
import mmap
import os
import typing

__all__ = ["collections", "ctypes", "json", "mmap", "typing"]

for library in os.environ["KERNELWRIGHT_PRELOAD"].split(os.pathsep):
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL if "gomp" in library else ctypes.DEFAULT_MODE)
