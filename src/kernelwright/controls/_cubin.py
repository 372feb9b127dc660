"""A cubin, read as the ELF file that it is: its kernels, what each needs, and a key of what runs.

Layout of `.nv.info` as cuobjdump shows it: an attribute is a format and a number, one byte each, then two
bytes of value, or their count and that many bytes. Checked against `cuobjdump` and `ptxas -v` in the tests.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelwright.errors import FileFormatError

_EM_CUDA = "EM_CUDA"
_ABI_13 = 8
_SIZED = 4
_INFO = ".nv.info"
_PARAMETER_SIZE_SHIFT = 18

REGISTERS = 0x2F
FRAME = 0x11
STACK = 0x12
MAX_STACK = 0x23
BARRIERS = 0x4C
MAX_THREADS = 0x05
REQUIRED_THREADS = 0x10
PARAMETER = 0x17
ANNOTATIONS = 0x55
#: Attributes whose value begins with the number of a symbol: the kernel's, or that of its parameters' bank.
_OF_SYMBOL = (REGISTERS, FRAME, STACK, MAX_STACK, 0x0A)
#: Attributes that say how a kernel was made and not what it does: annotations of its instructions, the cap
#: that it was compiled under, the version of the interface, the language.
_MADE = (ANNOTATIONS, 0x1B, 0x37, 0x66)


@dataclass(frozen=True)
class Attribute:
    """One attribute of `.nv.info`; `symbol` is the kernel that it is about, where it says so."""

    number: int
    value: bytes
    symbol: str | None

    def words(self) -> tuple[int, ...]:
        """The value as unsigned numbers of 32 bits; a short one is one number."""
        if len(self.value) < 4:
            return (int.from_bytes(self.value, "little"),)
        return struct.unpack(f"<{len(self.value) // 4}I", self.value[: len(self.value) // 4 * 4])


class Cubin:
    """The cubin in these bytes, or in a file. Raises FileFormatError where it is none."""

    def __init__(self, source: bytes | Path) -> None:
        # Imported here: most processes never look into a cubin.
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        path = source if isinstance(source, Path) else Path("cubin")
        data = source.read_bytes() if isinstance(source, Path) else source
        try:
            self._elf = ELFFile(io.BytesIO(data))
            machine = self._elf["e_machine"]
            self._sections = {section.name: section for section in self._elf.iter_sections()}
        except (ELFError, UnicodeDecodeError, KeyError) as error:
            raise FileFormatError(path, f"not a cubin ({error or 'no ELF file'})") from error
        if machine != _EM_CUDA:
            raise FileFormatError(path, f"an ELF file for {machine}, not a cubin")

    @cached_property
    def architecture(self) -> str:
        """What it was compiled for, such as `sm_90`."""
        flags = self._elf["e_flags"]
        return f"sm_{flags & 0xFF if self._old else flags >> 8 & 0xFF}"

    @property
    def _old(self) -> bool:
        """Whether it is laid out as before CUDA 13."""
        return int(self._elf["e_ident"]["EI_ABIVERSION"]) < _ABI_13

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """The names of its kernels."""
        names = (name.removeprefix(f"{_INFO}.") for name in self._sections if name.startswith(f"{_INFO}."))
        return tuple(name for name in names if f".text.{name}" in self._sections)

    @cached_property
    def _symbols(self) -> list[str]:
        table: Any = self._sections.get(".symtab")
        return [] if table is None else [symbol.name for symbol in table.iter_symbols()]

    def attributes(self, kernel: str | None = None) -> Iterator[Attribute]:
        """The attributes of a kernel, and those of the whole file about it; all of the file's where None."""
        if kernel is not None:
            yield from self._attributes(f"{_INFO}.{kernel}")
        for one in self._attributes(_INFO):
            if kernel is None or one.symbol == kernel:
                yield one

    def _attributes(self, section: str) -> Iterator[Attribute]:
        data = self._sections[section].data() if section in self._sections else b""
        at = 0
        while at + 4 <= len(data):
            form, number = data[at], data[at + 1]
            size = int.from_bytes(data[at + 2 : at + 4], "little") if form == _SIZED else 0
            value = data[at + 4 : at + 4 + size] if form == _SIZED else data[at + 2 : at + 4]
            symbol = None
            if number in _OF_SYMBOL and len(value) == 8:
                index = int.from_bytes(value[:4], "little")
                symbol = self._symbols[index] if index < len(self._symbols) else None
                value = value[4:]
            yield Attribute(number, value, symbol)
            at += 4 + size

    def code(self, kernel: str) -> bytes:
        """The machine code of a kernel."""
        return bytes(self._sections[f".text.{kernel}"].data())

    def parameter_sizes(self, kernel: str) -> tuple[int, ...]:
        """Bytes of each parameter of a kernel, in order."""
        sizes: dict[int, int] = {}
        for one in self.attributes(kernel):
            if one.number == PARAMETER:
                _, place, packed = one.words()
                sizes[place & 0xFFFF] = packed >> _PARAMETER_SIZE_SHIFT
        return tuple(sizes[ordinal] for ordinal in sorted(sizes))

    def size(self, section: str) -> int:
        """Bytes of a section; 0 where there is none."""
        return int(self._sections[section]["sh_size"]) if section in self._sections else 0

    def barriers(self, kernel: str) -> int:
        """How many barriers a block of the kernel uses."""
        if self._old:
            return int(self._sections[f".text.{kernel}"]["sh_flags"]) >> 20 & 0x7F
        return next((one.words()[0] for one in self.attributes(kernel) if one.number == BARRIERS), 0)

    @property
    def reserves_shared(self) -> bool:
        """Whether sections of shared memory begin with what the system reserves (sm_90 and newer)."""
        return ".nv.shared.reserved.0" in self._sections

    def key(self) -> str:
        """32 hex digits over all that decides what runs: two cubins with the same key run the same.

        Of the sections that a process loads, notes left out (they hold the command line), and of the
        attributes by which the driver sets registers, stack, barriers and parameters up. Numbers of symbols
        are replaced by names, since debug data shifts them.
        """
        from elftools.elf.constants import SH_FLAGS

        digest = hashlib.sha256()
        for name in sorted(self._sections):
            section = self._sections[name]
            kind = section["sh_type"]
            if name.startswith(_INFO):
                for one in self._attributes(name):
                    if one.number not in _MADE:
                        digest.update(repr((name, one.number, one.symbol, one.value)).encode())
            elif kind in ("SHT_REL", "SHT_RELA"):
                if "debug" not in name:
                    digest.update(repr((name, *self._relocations(section))).encode())
            elif section["sh_flags"] & SH_FLAGS.SHF_ALLOC and kind != "SHT_NOTE":
                digest.update(repr((name, kind, section["sh_size"])).encode())
                if kind != "SHT_NOBITS":
                    digest.update(section.data())
        return digest.hexdigest()[:32]

    def _relocations(self, section: Any) -> Iterator[tuple[Any, ...]]:
        for one in section.iter_relocations():
            entry = one.entry
            name = self._symbols[entry["r_info_sym"]] if entry["r_info_sym"] < len(self._symbols) else ""
            yield entry["r_offset"], entry["r_info_type"], name, entry.get("r_addend", 0)


def cubin_key(source: bytes | Path) -> str:
    """The code key of a cubin; see `Cubin.key`. Raises FileFormatError."""
    return Cubin(source).key()
