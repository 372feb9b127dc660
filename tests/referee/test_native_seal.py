"""Code of the driver and of the C library, compared with what it was before a kernel was loaded."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.referee import NativeEntrant
from kernelwright.referee._native_seal import code_of
from kernelwright.referee._native_seal import CodeSeal
from kernelwright.referee._native_seal import impersonates

Planted = Callable[[str], NativeEntrant]


def test_code_that_nobody_touched_is_whole() -> None:
    seal = CodeSeal(os.getpid(), ("libc.so", "[vdso]"))
    assert seal.missing == ""
    assert seal._kept, "there is some code to look at"
    assert seal.broken() is None


def test_one_changed_byte_of_code_is_named() -> None:
    seal = CodeSeal(os.getpid(), ("libc.so",))
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.l64a, ctypes.c_void_p).value or 0  # a function that nobody calls
    page = address // mmap.PAGESIZE * mmap.PAGESIZE
    protect = libc.mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    byte = ctypes.c_ubyte.from_address(address)
    kept = byte.value
    assert protect(page, 2 * mmap.PAGESIZE, 7) == 0
    try:
        byte.value = kept ^ 1
        assert seal.broken() == f"changed the code of {_libc_name()} in its process, at {address:#x}"
    finally:
        byte.value = kept
        protect(page, 2 * mmap.PAGESIZE, 5)
    assert seal.broken() is None


def test_a_process_that_cannot_be_read_is_said_to_be_so() -> None:
    seal = CodeSeal(2**22 + 1, ("libc.so",))
    assert "cannot be read" in seal.missing
    assert seal.broken() is None


@pytest.mark.parametrize("name", ["honest_openmp", "patches_the_clock"])
def test_a_library_that_only_uses_clocks_takes_nobody_s_name(planted: Planted, name: str) -> None:
    assert impersonates(planted(name).library) is None


def test_a_library_that_defines_a_clock_is_found_out(planted: Planted) -> None:
    words = impersonates(planted("defines_the_clock").library)
    assert words == "its library defines clock_gettime, the name of a function of the C library's clocks"


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 200, b"text"])
def test_what_is_no_library_takes_nobody_s_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kernel.so"
    path.write_bytes(content)
    assert impersonates(path) is None


def test_a_file_that_is_not_there_has_no_code(tmp_path: Path) -> None:
    assert code_of(tmp_path / "kernel.so") is None


def _libc_name() -> str:
    names = {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line
    }
    return Path(names.pop()).name
