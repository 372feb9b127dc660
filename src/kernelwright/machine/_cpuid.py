"""CPUID and XGETBV, executed here: no compiler, and right under an emulator, where /proc shows the host.

Source: Intel SDM volume 2A, CPUID; volume 1, chapter 13 (XCR0); AMD APM volume 3, appendix E.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
from collections.abc import Callable
from dataclasses import dataclass

# void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4])
#   push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid;
#   mov [r8], eax; mov [r8+4], ebx; mov [r8+8], ecx; mov [r8+12], edx; pop rbx; ret
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
# uint64_t xgetbv(uint32_t which)
#   mov ecx, edi; xgetbv; shl rdx, 32; or rax, rdx; ret
_XGETBV = bytes.fromhex("89f9 0f01d0 48c1e220 4809d0 c3")
_XGETBV_OFFSET = 64


@dataclass(frozen=True)
class Registers:
    """What CPUID answered."""

    eax: int
    ebx: int
    ecx: int
    edx: int


@dataclass(frozen=True)
class Instructions:
    """The two instructions, callable. `xgetbv` may be called only when CPUID says OSXSAVE."""

    cpuid: Callable[[int, int], Registers]
    xgetbv: Callable[[int], int]


@functools.cache
def instructions() -> Instructions | None:
    """CPUID and XGETBV of the processor that runs this; None on another architecture or where no page may
    be made executable.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    address = _executable_page(_CPUID.ljust(_XGETBV_OFFSET, b"\xcc") + _XGETBV)
    if address is None:
        return None
    raw_cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)
    raw_xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)(address + _XGETBV_OFFSET)

    def cpuid(leaf: int, subleaf: int = 0) -> Registers:
        out = (ctypes.c_uint32 * 4)()
        raw_cpuid(leaf, subleaf, ctypes.addressof(out))
        return Registers(*out)

    return Instructions(cpuid, lambda which: int(raw_xgetbv(which)))


def _executable_page(code: bytes) -> int | None:
    """Put `code` on a page that can be executed and no longer written; None where that is forbidden."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        return None
    ctypes.memmove(address, code, len(code))
    if libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return None
    return int(address)
