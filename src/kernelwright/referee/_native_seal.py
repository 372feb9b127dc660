"""Whether the code that calls and clocks a kernel is still what it was before that kernel was loaded.

A kernel shares its process with the driver. It could make the driver's code writable, or that of the C
library or the clock's, and change it. So the executable pages of these, and the driver's table of functions,
are read from outside before the kernel is loaded, and compared afterwards.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


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
            chosen = [one for one in _mappings(pid) if _is_code(one, names)]
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


def _mappings(pid: int) -> list[_Mapping]:
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
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
