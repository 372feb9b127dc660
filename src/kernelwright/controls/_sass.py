"""Instructions of a kernel's machine code, counted by kind, without a disassembler.

From sm_70 on an instruction is 16 bytes; its lowest nine bits say which it is. The numbers below were read
off nvdisasm's listings of the same code for sm_80, sm_90 and sm_100, where they agree.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass

_SIZE = 16
_OPCODE = 0x1FF
#: Where in the upper half a load or store says how wide it is, and the bytes that it means.
_WIDTH_SHIFT = 9
_WIDTHS = (1, 1, 2, 2, 4, 8, 16, 16)
_LDL, _STL = 0x183, 0x187

_KINDS: Mapping[str, tuple[int, ...]] = {
    "tensor": (0x37, 0x3C, 0x3F, 0x1F0, 0x1F3),
    "fma": (0x23, 0x2B, 0x31, 0x35),
    "float": (0x08, 0x09, 0x0B, 0x20, 0x21, 0x28, 0x29, 0x2A, 0x30, 0x32),
    "special": (0x108,),
    "convert": (0x3E, 0x45, 0x105, 0x106, 0x110),
    "global_load": (0x180, 0x181),
    "global_store": (0x185, 0x186),
    "async_copy": (0x1AE, 0x1B4, 0x1BA),
    "shared_load": (0x3B, 0x184),
    "shared_store": (0x44, 0x188),
    "local_load": (_LDL,),
    "local_store": (_STL,),
    "atomic": (0x18B, 0x18C, 0x18D, 0x1A2, 0x1A3, 0x1A6, 0x1A8, 0x1A9),
    "shuffle": (0x189,),
    "barrier": (0x11D, 0x1A7, 0x1C5),
    "branch": (0x144, 0x147, 0x150),
}
_NOP = 0x118
_KIND_OF = {number: kind for kind, numbers in _KINDS.items() for number in numbers}


@dataclass(frozen=True)
class Instruction:
    """One instruction: its place in bytes, its number, and the bytes that it moves where it moves any."""

    offset: int
    opcode: int
    width: int


def instructions(code: bytes) -> Iterator[Instruction]:
    """The instructions of machine code, padding left out."""
    for offset in range(0, len(code) - _SIZE + 1, _SIZE):
        low, high = struct.unpack_from("<QQ", code, offset)
        if low & _OPCODE != _NOP:
            yield Instruction(offset, low & _OPCODE, _WIDTHS[high >> _WIDTH_SHIFT & 7])


def instruction_mix(code: bytes) -> dict[str, int]:
    """How many instructions there are of each kind, `other` for all else, and `total`."""
    counts = Counter(_KIND_OF.get(one.opcode, "other") for one in instructions(code))
    mix = {kind: counts[kind] for kind in (*_KINDS, "other") if counts[kind]}
    return {**mix, "total": counts.total()}


def local_bytes(code: bytes, offsets: Collection[int] | None = None) -> tuple[int, int]:
    """Bytes that a thread stores to and loads from local memory, each instruction counted once.

    With `offsets` only the instructions there.
    """
    stores = loads = 0
    for one in instructions(code):
        if one.opcode in (_STL, _LDL) and (offsets is None or one.offset in offsets):
            stores += one.width if one.opcode == _STL else 0
            loads += one.width if one.opcode == _LDL else 0
    return stores, loads
