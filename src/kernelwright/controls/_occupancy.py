"""How many threads of a kernel a multiprocessor can hold: a bound, from what the kernel needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.errors import UnknownNameError

_WARP = 32


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor has to share out.

    `shared` is the largest shared memory that its blocks can have together, in bytes, of which each block
    has `reserved` taken by the system. Registers are given to a warp in units of `register_unit`, shared
    memory to a block in units of `shared_unit`; warps come in groups of `warp_unit`.
    """

    warps: int
    blocks: int
    shared: int
    reserved: int = 1024
    registers: int = 65536
    register_unit: int = 256
    warp_unit: int = 4
    shared_unit: int = 128


#: CUDA C++ Programming Guide, "Compute Capabilities": technical specifications per compute capability.
MULTIPROCESSORS: Mapping[str, Multiprocessor] = {
    "sm_75": Multiprocessor(32, 16, 64 << 10, reserved=0, shared_unit=256),
    "sm_80": Multiprocessor(64, 32, 164 << 10),
    "sm_86": Multiprocessor(48, 16, 100 << 10),
    "sm_87": Multiprocessor(48, 16, 164 << 10),
    "sm_89": Multiprocessor(48, 24, 100 << 10),
    "sm_90": Multiprocessor(64, 32, 228 << 10),
    "sm_100": Multiprocessor(64, 32, 228 << 10),
    "sm_103": Multiprocessor(64, 32, 228 << 10),
    "sm_120": Multiprocessor(48, 24, 100 << 10),
    "sm_121": Multiprocessor(48, 24, 100 << 10),
}


def occupancy(architecture: str, *, registers: int, shared: int, threads: int) -> float:
    """The share of a multiprocessor's warps that can be resident at once, from 0 (none fits) to 1.

    `registers` of a thread, `shared` bytes and `threads` of a block. Raises UnknownNameError for an
    architecture that is not in the table.
    """
    has = _multiprocessor(architecture)
    warps = -(-threads // _WARP)
    return (
        blocks_resident(architecture, registers=registers, shared=shared, threads=threads) * warps / has.warps
    )


def blocks_resident(architecture: str, *, registers: int, shared: int, threads: int) -> int:
    """How many blocks can be resident on a multiprocessor at once."""
    has = _multiprocessor(architecture)
    warps = -(-threads // _WARP)
    of_warp = _up(max(registers, 1) * _WARP, has.register_unit)
    by_registers = has.registers // of_warp // has.warp_unit * has.warp_unit // warps
    of_block = _up(shared + has.reserved, has.shared_unit)
    by_shared = has.shared // of_block if of_block else has.blocks
    return min(has.blocks, has.warps // warps, by_registers, by_shared)


def _multiprocessor(architecture: str) -> Multiprocessor:
    plain = architecture.rstrip("af")
    if plain not in MULTIPROCESSORS:
        raise UnknownNameError("GPU architecture", architecture, MULTIPROCESSORS)
    return MULTIPROCESSORS[plain]


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
