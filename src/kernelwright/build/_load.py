"""Artifacts as callable libraries."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

from kernelwright.build._artifact import Artifact

_libraries: dict[Path, ctypes.CDLL] = {}
_lock = threading.Lock()


def load(artifact: Artifact) -> ctypes.CDLL:
    """The library of an artifact, loaded once a process and kept.

    Its symbols are its own (RTLD_LOCAL), so the tiers of one kernel live side by side. Its OpenMP is the one
    that is already loaded, as torch's is once torch is imported: libraries made by g++ ask for
    `libgomp.so.1`, the very name under which torch brings its own. Raises OSError when the file is gone or
    not for this machine.
    """
    path = artifact.library
    with _lock:
        library = _libraries.get(path)
        if library is None:
            library = _libraries[path] = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
        return library
