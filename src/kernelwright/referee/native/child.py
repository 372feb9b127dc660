"""The measuring child: loads kernels and lets the native driver call them; standard library only.

Started as `child.py DRIVER LIBGOMP STORE_FD STORE_BYTES BOARD_FD BOARD_BYTES`. It never sees a reference, a
tolerance or a verdict: it is told where calls are described in the store, and leaves what came of them in the
board.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.process import connect
else:
    from kernelwright_channel import connect

_LOADING = 1
_IDLE = 0
_CHANNEL_LOST = 97


def _map(handle: int, size: int, writable: bool) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    )
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = libc.mmap(None, size, protection, mmap.MAP_SHARED, handle, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot map {size} bytes of shared memory (errno {ctypes.get_errno()})")
    return int(address)


class Driver:
    """The native driver with its two mappings and the kernels loaded so far."""

    def __init__(self, library: str, libgomp: str, store: int, board: int) -> None:
        if libgomp:
            ctypes.CDLL(libgomp, mode=ctypes.RTLD_GLOBAL)
        self.native = ctypes.CDLL(library)
        self.store = store
        self.board = board
        self.kernels: list[int] = []
        self._libraries: list[ctypes.CDLL] = []
        native = self.native
        pointer, i64, i32, u64, u32 = (
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int32,
            ctypes.c_uint64,
            ctypes.c_uint32,
        )
        native.kwr_check.argtypes = (pointer, pointer, i64, i64, i64, pointer, i32)
        native.kwr_race_open.argtypes = (pointer, pointer, i64, i64, pointer)
        native.kwr_race_ready.argtypes = (pointer, pointer, i64, i64, i64)
        native.kwr_race_prepare.argtypes = (u64, i64)
        native.kwr_race_lead.argtypes = (i64, i64)
        native.kwr_race_batch.argtypes = (i64, i32)
        native.kwr_race_rest.restype = None
        native.kwr_race_look.argtypes = (i64, i64, i64)
        native.kwr_float_control.argtypes = (u32,)
        native.kwr_float_control.restype = u32
        native.kwr_report_faults.argtypes = (pointer,)
        native.kwr_report_faults.restype = None
        native.kwr_report_faults(board)
        self.pages_kept = bool(native.kwr_keep_pages())
        self.sizes = (ctypes.c_int64 * 7)()
        native.kwr_layout(self.sizes)

    def _phase(self, phase: int) -> None:
        ctypes.c_int64.from_address(self.board).value = phase

    def load(self, library: str, symbol: str) -> dict[str, object]:
        """Load a kernel; its number, and the float controls before and after."""
        self._phase(_LOADING)
        control = self.native.kwr_float_control(0)
        try:
            loaded = ctypes.CDLL(library)
        except OSError as error:
            return {"error": f"the library does not load: {error}"}
        finally:
            self._phase(_IDLE)
            found = self.native.kwr_float_control(control)
        try:
            function = getattr(loaded, symbol)
        except AttributeError:
            return {"error": f"the library has no function {symbol}"}
        self._libraries.append(loaded)
        self.kernels.append(int(ctypes.cast(function, ctypes.c_void_p).value or 0))
        return {"kernel": len(self.kernels) - 1, "controls": [control, found]}

    def check(self, cases: int, results: int, count: int, kernel: int, threads: int) -> dict[str, object]:
        """Make the calls of a table of cases."""
        address = self.kernels[kernel]
        return {"rc": self.native.kwr_check(self.store, self.board, cases, results, count, address, threads)}

    def ready(self, plan: int, state: int, sets: int) -> dict[str, object]:
        """Get memory, and fill buffer sets, for a race of a kernel that is still to be loaded."""
        return {"rc": self.native.kwr_race_ready(self.store, self.board, plan, state, sets)}

    def open(self, plan: int, state: int, kernel: int) -> dict[str, object]:
        """Calibrate a race and fill its buffer sets."""
        return {"rc": self.native.kwr_race_open(self.store, self.board, plan, state, self.kernels[kernel])}

    def prepare(self, seed: int, windows: int) -> dict[str, object]:
        """Renew contents and empty caches before a batch."""
        return {"rc": self.native.kwr_race_prepare(seed, windows)}

    def lead(self, padding: int, processor: int) -> dict[str, object]:
        """Calls that nobody clocks, from a new thread, begun on that processor."""
        return {"rc": self.native.kwr_race_lead(padding, processor)}

    def rest(self) -> dict[str, object]:
        """End the thread that called."""
        self.native.kwr_race_rest()
        return {"rc": 0}

    def batch(self, samples: int, keep_last: int) -> dict[str, object]:
        """Call and clock, nothing else."""
        return {"rc": self.native.kwr_race_batch(samples, keep_last)}

    def look(self, looks: int, count: int, copies: int) -> dict[str, object]:
        """Copy out what the parent asks for."""
        return {"rc": self.native.kwr_race_look(looks, count, copies)}


def main() -> None:
    """Serve the parent until it closes the channel."""
    library, libgomp, store_fd, store_bytes, board_fd, board_bytes = sys.argv[1:7]
    channel = connect()
    store = _map(int(store_fd), int(store_bytes), writable=False)
    board = _map(int(board_fd), int(board_bytes), writable=True)
    driver = Driver(library, libgomp, store, board)
    operations: dict[str, Callable[..., dict[str, object]]] = {
        "load": driver.load,
        "check": driver.check,
        "ready": driver.ready,
        "open": driver.open,
        "prepare": driver.prepare,
        "lead": driver.lead,
        "rest": driver.rest,
        "batch": driver.batch,
        "look": driver.look,
    }
    channel.send({"ready": True, "sizes": list(driver.sizes), "pages_kept": driver.pages_kept})
    while (message := channel.receive()) is not None:
        operation = operations[str(message.pop("op"))]
        channel.send(operation(**message))


if __name__ == "__main__":
    try:
        main()
    except OSError:  # the kernel has closed the channel: nobody can be told otherwise
        os._exit(_CHANNEL_LOST)
