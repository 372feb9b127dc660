"""What a GPU kernel needs, known without running it: from its cubin, and from what `ptxas -v` said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from kernelwright.controls import _cubin
from kernelwright.controls._cubin import Cubin
from kernelwright.controls._occupancy import MULTIPROCESSORS
from kernelwright.controls._occupancy import occupancy
from kernelwright.controls._sass import instruction_mix
from kernelwright.controls._sass import local_bytes
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

_RESERVED_SHARED = 1024
_SPILL = 1


@dataclass(frozen=True)
class Resources:
    """What one kernel needs.

    Registers of a thread; bytes of a thread stored and loaded by spills, each instruction counted once, and
    by other accesses to `local` memory (arrays that are indexed at run time); bytes of its `stack`; bytes of
    a block's `shared` memory, dynamic memory included as far as it was named; `barriers` of a block; bytes of
    `constant` memory with its parameters. `threads` is the largest block that it was compiled for, or the
    one named; `occupancy` the share of a multiprocessor's warps that can be resident at once, None where the
    size of a block or the architecture is not known. `mix` counts its instructions by kind.
    """

    kernel: str
    architecture: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    local: int
    barriers: int
    constant: int
    threads: int | None = None
    occupancy: float | None = None
    mix: Mapping[str, int] = field(default_factory=dict)

    @property
    def spills(self) -> int:
        """Bytes that spills store and load."""
        return self.spill_stores + self.spill_loads

    def features(self) -> dict[str, float | int | str]:
        """By name, for constraints such as `spills == 0` and for optimisers; without what is not known."""
        names = ("registers", "spill_stores", "spill_loads", "spills", "stack", "shared", "local", "barriers")
        found: dict[str, float | int | str] = {name: getattr(self, name) for name in (*names, "constant")}
        if self.threads is not None:
            found["threads"] = self.threads
        if self.occupancy is not None:
            found["occupancy"] = self.occupancy
        return {**found, **{f"instructions_{kind}": count for kind, count in self.mix.items()}}


def resources_of(
    cubin: bytes | Path | Cubin,
    kernel: str | None = None,
    *,
    threads: int | None = None,
    dynamic_shared: int = 0,
) -> Resources:
    """What a kernel of a cubin needs; `kernel` may be left out where there is one.

    `threads` of a block and bytes of `dynamic_shared` memory as it will be launched sharpen the occupancy.
    Raises FileFormatError for what is no cubin, UnknownNameError for a kernel that is not in it, UsageError
    where one has to be named.
    """
    read = cubin if isinstance(cubin, Cubin) else Cubin(cubin)
    name = _chosen(read, kernel)
    attributes = {one.number: one for one in read.attributes(name)}
    code = read.code(name)

    def number(attribute: int) -> int:
        return attributes[attribute].words()[0] if attribute in attributes else 0

    stores, loads = local_bytes(code, _spills(attributes.get(_cubin.ANNOTATIONS)))
    all_stores, all_loads = local_bytes(code)
    static = read.size(f".nv.shared.{name}")
    if static and read.reserves_shared:
        static -= _RESERVED_SHARED
    registers, shared = number(_cubin.REGISTERS), static + dynamic_shared
    block = threads or _block(attributes)
    known = block is not None and read.architecture in MULTIPROCESSORS
    return Resources(
        kernel=name,
        architecture=read.architecture,
        registers=registers,
        spill_stores=stores,
        spill_loads=loads,
        stack=max(number(_cubin.STACK), number(_cubin.FRAME)),
        shared=shared,
        local=all_stores + all_loads - stores - loads,
        barriers=read.barriers(name),
        constant=read.size(f".nv.constant0.{name}"),
        threads=block,
        occupancy=occupancy(read.architecture, registers=registers, shared=shared, threads=block or 1)
        if known
        else None,
        mix=instruction_mix(code),
    )


def read_ptxas_log(log: str) -> dict[str, dict[str, int]]:
    """What `ptxas -v` said of each kernel: `registers`, `barriers`, `stack`, `spill_stores`, `spill_loads`,
    `shared`, and `constant` where it says that.
    """
    found: dict[str, dict[str, int]] = {}
    name: str | None = None
    for line in log.splitlines():
        begins = re.search(r"Compiling entry function '([^']+)'", line)
        if begins:
            name = begins[1]
            found[name] = {"shared": 0}
        if name is None:
            continue
        spilled = re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line
        )
        if spilled:
            stack, stores, loads = map(int, spilled.groups())
            found[name] |= {"stack": stack, "spill_stores": stores, "spill_loads": loads}
        if "Used" in line and "registers" in line:
            for what, pattern in _USED.items():
                said = re.search(pattern, line)
                if said:
                    found[name][what] = int(said[1])
            name = None
    return found


_USED = {
    "registers": r"Used (\d+) registers",
    "barriers": r"used (\d+) barriers",
    "shared": r"(\d+) bytes smem",
    "constant": r"(\d+) bytes cmem\[0\]",
}


def _chosen(read: Cubin, kernel: str | None) -> str:
    if kernel is None:
        if len(read.kernels) != 1:
            listed = ", ".join(read.kernels) or "none"
            raise UsageError(f"this cubin has {len(read.kernels)} kernels; name one of: {listed}")
        return read.kernels[0]
    if kernel not in read.kernels:
        raise UnknownNameError("kernel of the cubin", kernel, read.kernels)
    return kernel


def _spills(annotations: _cubin.Attribute | None) -> set[int]:
    """Where in the code the instructions are that spill and refill: pairs of a kind and an offset."""
    words = annotations.words() if annotations is not None else ()
    return {offset for kind, offset in zip(words[::2], words[1::2], strict=False) if kind == _SPILL}


def _block(attributes: Mapping[int, _cubin.Attribute]) -> int | None:
    """Threads of the block that a kernel was compiled for."""
    for number in (_cubin.REQUIRED_THREADS, _cubin.MAX_THREADS):
        if number in attributes:
            x, y, z = attributes[number].words()[:3]
            return x * y * z
    return None
