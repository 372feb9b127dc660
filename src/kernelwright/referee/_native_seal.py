"""Whether the code that calls and clocks a kernel is still what it was before that kernel was loaded.

A kernel shares its process with the driver. It could make the driver's code writable, or that of the C
library or the clock's, and change it. So the executable pages of these, and the driver's table of functions,
are read from outside before the kernel is loaded, and compared afterwards.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

#: Functions of others that a kernel has no business to bring under the same name.
_CLOCKS = frozenset(
    {
        "clock_gettime",
        "clock",
        "gettimeofday",
        "time",
        "timespec_get",
        "omp_get_wtime",
        "__vdso_clock_gettime",
    }
)
_DRIVER = "kwr_"
_SHT_DYNSYM = 11


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    access: str
    name: str


class CodeSeal:
    """The code of a process as it was when this was made; `names` are parts of the mapped files' names.

    `missing` says why it could not be read, and is empty when it was.
    """

    def __init__(self, pid: int, names: tuple[str, ...]) -> None:
        self._pid = pid
        self._kept: list[tuple[_Mapping, bytes]] = []
        self.missing = ""
        try:
            chosen = [one for one in _mappings(pid, names) if _is_code(one, names)]
            self._kept = list(zip(chosen, self._read(chosen), strict=True))
        except OSError as error:
            self.missing = f"the memory of the child cannot be read ({error.strerror})"

    def broken(self) -> str | None:
        """What has been changed, in words; None while all is as it was."""
        if not self._kept:
            return None
        try:
            found = self._read([one for one, _ in self._kept])
        except OSError as error:
            return f"made the driver's code unreadable ({error.strerror})"
        for (one, before), after in zip(self._kept, found, strict=True):
            if before != after:
                at = next(index for index, (x, y) in enumerate(zip(before, after, strict=True)) if x != y)
                return f"changed the code of {_short(one.name)} in its process, at {one.start + at:#x}"
        return None

    def _read(self, mappings: list[_Mapping]) -> list[bytes]:
        handle = os.open(f"/proc/{self._pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return [os.pread(handle, one.end - one.start, one.start) for one in mappings]
        finally:
            os.close(handle)


def _mappings(pid: int, names: tuple[str, ...]) -> list[_Mapping]:
    """The mappings of a process whose lines hold any of these names, which are few of them."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if not any(name in line for name in names):
            continue
        words = line.split(maxsplit=5)
        start, end = (int(word, 16) for word in words[0].split("-"))
        found.append(_Mapping(start, end, words[1], words[5] if len(words) > 5 else ""))
    return found


def _is_code(one: _Mapping, names: tuple[str, ...]) -> bool:
    """Executable pages; of the driver also what is read-only after linking, its table of functions."""
    if not any(name in one.name.rpartition("/")[2] for name in names):
        return False
    return "x" in one.access or (one.access.startswith("r--") and one.name.endswith(names[0]))


def _short(name: str) -> str:
    return "the clock" if name == "[vdso]" else Path(name).name


def code_of(library: Path) -> str | None:
    """The SHA-256 of a library as it is now; None when it cannot be read."""
    try:
        return hashlib.sha256(library.read_bytes()).hexdigest()
    except OSError:
        return None


def impersonates(library: Path) -> str | None:
    """A function that a library exports under the name of a clock or of the driver, in words.

    It would take the place of the real one wherever a name is looked up later. What is no 64-bit ELF file
    exports nothing; loading it fails anyway.
    """
    try:
        names = _exported(library.read_bytes())
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return None
    taken = sorted(name for name in names if name in _CLOCKS or name.startswith(_DRIVER))
    if not taken:
        return None
    whose = "the referee's driver" if taken[0].startswith(_DRIVER) else "the C library's clocks"
    return f"its library defines {taken[0]}, the name of a function of {whose}"


def _exported(data: bytes) -> list[str]:
    """Names of the functions that a 64-bit little-endian ELF file defines for others (System V ABI, gABI)."""
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    table, entry, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry) for index in range(count)]
    names = []
    for section in sections:
        if section[1] != _SHT_DYNSYM:
            continue
        start, size, strings = section[4], section[5], sections[section[6]][4]
        for at in range(start, start + size, 24):
            name, _, _, where = struct.unpack_from("<IBBH", data, at)
            if where and name:
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode(errors="replace"))
    return names
