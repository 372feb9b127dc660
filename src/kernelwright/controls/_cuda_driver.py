"""Kernels of a cubin on a GPU: loaded and launched through the CUDA driver, beside what torch runs there.

Only the driver's own library is needed, by ctypes; memory, streams and events are torch's, in whose context
(the device's primary one) the kernels are loaded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.controls._cubin import Cubin
from kernelwright.errors import UsageError
from kernelwright.search import StageFailure

_LIBRARY = "libcuda.so.1"
_OUT_OF_MEMORY = (2,)
#: Errors of a launch that a configuration can be blamed for, after which the device goes on working.
_REFUSED = (1, 98, 200, 209, 218, 400, 500, 701)
_DYNAMIC_SHARED = 8
_PLENTY_SHARED = 48 << 10


class GpuFailure(StageFailure):
    """A kernel that failed on the GPU; `kind` is `crashed`, `hung`, `out_of_memory` or `unsupported`.

    `retire` says why this process can do no more on its GPU, and has to end; None where it can.
    """

    def __init__(self, reason: str, *, kind: str, lost: bool = False, lasts: bool = False) -> None:
        super().__init__(reason, kind=kind, lasts=lasts)
        self.retire = f"its GPU context is lost ({kind})" if lost else None


@functools.cache
def driver() -> Any:
    """The driver's library, initialised. Raises StageFailure of kind `unsupported` where there is none."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise no_gpu(str(error)) from error
    if library.cuInit(0) != 0:
        raise no_gpu("the CUDA driver does not start")
    return library


def no_gpu(why: str) -> StageFailure:
    """What measuring raises where there is no NVIDIA GPU."""
    return StageFailure(
        f"an NVIDIA GPU is needed to measure ({why}); build and prune here, and measure on a machine that "
        "has one",
        kind="unsupported",
    )


def checked(code: int, what: str) -> None:
    """Raise GpuFailure unless a call of the driver succeeded."""
    if not code:
        return
    text = ctypes.c_char_p()
    driver().cuGetErrorString(code, ctypes.byref(text))
    said = text.value.decode() if text.value else "unknown error"
    short = code in _OUT_OF_MEMORY
    refused = code in _REFUSED
    raise GpuFailure(
        f"{what}: {said} (CUDA error {code})",
        kind="out_of_memory" if short else "crashed",
        lost=not (short or refused),
        lasts=refused,
    )


class LoadedKernel:
    """A kernel of a cubin in the current context. Raises StageFailure, UsageError, FileFormatError."""

    def __init__(self, path: Path, kernel: str, *, dynamic_shared: int = 0) -> None:
        data = path.read_bytes()
        self.name = kernel
        self._sizes = Cubin(data).parameter_sizes(kernel)
        self._shared = dynamic_shared
        self._module = ctypes.c_void_p()
        self._function = ctypes.c_void_p()
        library = driver()
        checked(library.cuModuleLoadData(ctypes.byref(self._module), data), f"{path.name} is not loaded")
        checked(
            library.cuModuleGetFunction(ctypes.byref(self._function), self._module, kernel.encode()),
            f"{path.name} has no kernel {kernel}",
        )
        if dynamic_shared > _PLENTY_SHARED:
            checked(
                library.cuFuncSetAttribute(self._function, _DYNAMIC_SHARED, dynamic_shared),
                f"{kernel} cannot have {dynamic_shared} bytes of shared memory",
            )

    def pack(self, arguments: Sequence[Any]) -> Any:
        """The arguments as the driver takes them; keep what this returns until the launch is over."""
        if len(arguments) != len(self._sizes):
            raise UsageError(
                f"{self.name} takes {len(self._sizes)} arguments (of {list(self._sizes)} bytes), and "
                f"{len(arguments)} are given"
            )
        values = [_packed(one, size, self.name) for one, size in zip(arguments, self._sizes, strict=True)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        return pointers, values

    def launch(self, grid: Sequence[int], block: Sequence[int], packed: Any, stream: int) -> None:
        """Start it. Raises GpuFailure where the driver refuses it; what it does shows as it is waited for."""
        code = driver().cuLaunchKernel(
            self._function,
            *(ctypes.c_uint(size) for size in (*_three(grid), *_three(block))),
            ctypes.c_uint(self._shared),
            ctypes.c_void_p(stream),
            packed[0],
            None,
        )
        checked(code, f"{self.name} is not launched")

    def close(self) -> None:
        """Unload it; a context that is lost has nothing to unload."""
        if self._module:
            driver().cuModuleUnload(self._module)
            self._module = ctypes.c_void_p()


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(sizes) <= 3:
        raise UsageError(f"a grid or block has one to three sizes, not {list(sizes)}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _packed(value: Any, size: int, kernel: str) -> Any:
    """One argument as a ctypes value of `size` bytes."""
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure):
        return value
    if hasattr(value, "data_ptr"):
        kinds: dict[int, Any] = {8: ctypes.c_uint64}
        value = value.data_ptr()
    elif isinstance(value, float):
        kinds = {4: ctypes.c_float, 8: ctypes.c_double}
    else:
        kinds = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
        value = int(value)
    if size not in kinds:
        raise UsageError(f"{kernel} takes {size} bytes where {value!r} is given; pass a ctypes value")
    return kinds[size](value)
