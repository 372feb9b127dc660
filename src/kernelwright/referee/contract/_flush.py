"""Cold caches: memory that a call will read is written back and dropped from every cache before.

Natively, line by line: `clflush` reaches the caches of all cores, whichever process reads next. Without a
compiler, by walking through other memory, which leaves it to the caches what they drop; that is said.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from kernelwright import build
from kernelwright import machine
from kernelwright.errors import BuildError
from kernelwright.errors import NoCompilerError

#: Memory walked through at most: more takes longer than the block that it is for.
_MOST_WALKED = 256 << 20
_NATIVE = Path(__file__).with_name("native")
_log = logging.getLogger("kernelwright.referee")

Span = tuple[int, int]
"""Address and bytes."""
Flush = Callable[[int, int], None]


class Flusher:
    """Empties the caches of given memory. `exact` tells whether that is certain, `said` how it is done."""

    def __init__(self, flush: Flush | None) -> None:
        """`flush` is the native function, of an address and a number of bytes, or None: walk instead."""
        self._flush = flush
        self.exact = flush is not None
        self.said = "every line of them flushed from all caches before (clflush)"
        self._walk = np.zeros(0, dtype=np.uint8)
        if flush is None:
            size = min(max(machine.current().cold_bytes, 1 << 20), _MOST_WALKED)
            self._walk = np.zeros(size, dtype=np.uint8)
            self.said = f"{size >> 20} MiB of other memory walked through before, for want of a compiler"
            llc = machine.current().llc_bytes
            if llc > size:
                self.said += f"; the last-level cache holds {llc >> 20} MiB and may have kept some of them"

    def flush(self, spans: Sequence[Span]) -> None:
        """Make sure, or as sure as walking makes it, that none of the spans is in a cache."""
        if self._flush is None:
            # Written, not only read: each line is then owned by this core and takes the place of another.
            self._walk += 1
            return
        for address, count in spans:
            self._flush(address, count)


@cache
def native_flush() -> Flush | None:
    """The native function, compiled once; None, which is logged, where that cannot be done."""
    (section,) = build.read_build_file(_NATIVE / "build.toml").kernels.values()
    try:
        library = build.build(build.BuildRequest(section, _NATIVE, {})).library
    except (BuildError, NoCompilerError) as error:
        _log.info("caches are emptied by walking through memory, since %s", error)
        return None
    function = ctypes.CDLL(str(library)).kwr_flush
    function.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    function.restype = None
    found: Flush = function
    return found
