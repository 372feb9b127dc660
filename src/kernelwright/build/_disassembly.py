"""What a library really contains: its instructions by CPU feature, vector widths, calls into libm.

Compilers and headers let instructions slip in that a flag did not ask for; only the binary tells. Needs the
extra `disassembly` (iced-x86, whose decoder knows the CPUID features of every x86 instruction).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.errors import FileFormatError
from kernelwright.errors import MissingExtraError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

#: What every x86-64 processor has, in Linux's names.
BASELINE = frozenset({"cmov", "cx8", "fpu", "fxsr", "lm", "mmx", "sse", "sse2", "syscall", "tsc"})

#: Features that the left one cannot be without (Intel SDM volume 1, the detection chapters; as gcc's flags).
_IMPLIED: Mapping[str, tuple[str, ...]] = {
    "pni": ("sse2",),
    "ssse3": ("pni",),
    "sse4_1": ("ssse3",),
    "sse4_2": ("sse4_1", "popcnt"),
    "avx": ("sse4_2", "xsave"),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512cd": ("avx512f",),
    "avx512_bf16": ("avx512bw",),
    "avx512_fp16": ("avx512bw",),
    "avx512_vnni": ("avx512f",),
    "avx512vbmi": ("avx512bw",),
}

#: iced's names whose Linux name is not the lower-case one.
_LINUX_NAMES: Mapping[str, str] = {
    "AMX_BF16": "amx_bf16",
    "AVX512_IFMA": "avx512ifma",
    "AVX512_VBMI": "avx512vbmi",
    "CLFSH": "clflush",
    "CMPXCHG16B": "cx16",
    "D3NOW": "3dnow",
    "LZCNT": "abm",
    "PREFETCHW": "3dnowprefetch",
    "SHA": "sha_ni",
    "SSE3": "pni",
    "X64": "lm",
}
#: Older than x86-64, or run as a no-operation by a processor that does not know them.
_EVERYWHERE = frozenset({"CET_IBT", "CPUID", "MULTIBYTENOP", "PAUSE"})

WIDTHS = ("scalar", "xmm", "ymm", "zmm")


@dataclass(frozen=True)
class Contents:
    """The instructions of one library.

    `features` counts instructions by the Linux name of each CPU feature they need, `example` holds the first
    instruction of each; `widths` counts those that touch a register of 128, 256, 512 bits (`xmm`, `ymm`,
    `zmm`) and `scalar` the rest; `libm` counts calls by the function called; `undecoded` are the addresses
    of bytes that are no instruction.
    """

    instructions: int
    features: Mapping[str, int]
    example: Mapping[str, str]
    widths: Mapping[str, int]
    libm: Mapping[str, int]
    undecoded: tuple[int, ...]

    def beyond(self, allowed: Iterable[str]) -> dict[str, str]:
        """Features used that are neither allowed, nor implied by those, nor the baseline; with an example."""
        known = with_implied(allowed)
        return {name: self.example[name] for name in sorted(self.features) if name not in known}


def with_implied(features: Iterable[str]) -> frozenset[str]:
    """`features`, all that they imply, and the baseline of x86-64."""
    known = set(BASELINE)
    waiting = list(features)
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            waiting.extend(_IMPLIED.get(name, ()))
    return frozenset(known)


def features_used(library: Path) -> frozenset[str]:
    """The CPU features, in Linux's names, that the instructions of a library need; the baseline included.

    Raises MissingExtraError without iced-x86, FileFormatError when `library` is not an x86-64 library.
    """
    return frozenset(disassemble(library).features)


def disassemble(library: Path) -> Contents:
    """Every instruction of the executable sections of a library, counted.

    Raises MissingExtraError without iced-x86, FileFormatError when `library` is not an x86-64 library.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    iced = _iced()
    try:
        with library.open("rb") as stream:
            elf = ELFFile(stream)
            if elf["e_machine"] != "EM_X86_64":
                raise FileFormatError(library, f"not for x86-64 but {elf['e_machine']}")
            code = [(section["sh_addr"], section.data()) for section in _code(elf)]
            libm = _libm_slots(elf)
    except ELFError as error:
        raise FileFormatError(library, f"not an ELF library ({error})") from error
    return _count(iced, code, libm)


def _iced() -> ModuleType:
    try:
        import iced_x86
    except ImportError as error:
        raise MissingExtraError("iced-x86", "disassembly", "to see what a library contains") from error
    return iced_x86


def _code(elf: ELFFile) -> Iterator[Any]:
    from elftools.elf.constants import SH_FLAGS

    for section in elf.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR and section["sh_type"] == "SHT_PROGBITS":
            yield section


def _libm_slots(elf: ELFFile) -> dict[int, str]:
    """The function that each slot of the global offset table stands for, where libm provides it."""
    # Any: the kind of a section is known by its name here, and not to the type checker.
    needed: Any = elf.get_section_by_name(".gnu.version_r")
    versions: Any = elf.get_section_by_name(".gnu.version")
    symbols: Any = elf.get_section_by_name(".dynsym")
    if needed is None or versions is None or symbols is None:
        return {}
    from_libm = {
        version["vna_other"]
        for file, auxiliaries in needed.iter_versions()
        for version in auxiliaries
        if file.name.startswith(("libm.so", "libmvec.so"))
    }
    slots = {}
    for name in (".rela.plt", ".rela.dyn"):
        section: Any = elf.get_section_by_name(name)
        for relocation in section.iter_relocations() if section is not None else ():
            index = relocation["r_info_sym"]
            if index and versions.get_symbol(index)["ndx"] in from_libm:
                slots[relocation["r_offset"]] = symbols.get_symbol(index).name
    return slots


def _count(iced: ModuleType, code: list[tuple[int, bytes]], libm: Mapping[int, str]) -> Contents:
    features: Counter[str] = Counter()
    example: dict[str, str] = {}
    widths: Counter[str] = Counter()
    undecoded: list[int] = []
    stubs: dict[int, str] = {}
    branches: Counter[int] = Counter()
    direct: Counter[str] = Counter()
    total = 0
    names = _feature_names()
    width_of = _register_widths()
    near = (iced.FlowControl.CALL, iced.FlowControl.UNCONDITIONAL_BRANCH)
    through_memory = (iced.FlowControl.INDIRECT_CALL, iced.FlowControl.INDIRECT_BRANCH)
    for address, data in code:
        before = 0
        for instruction in iced.Decoder(64, data, ip=address):
            total += 1
            if instruction.is_invalid:
                undecoded.append(instruction.ip)
                continue
            # Compilers write `rep bsf` for speed where bsf would do; it reads as tzcnt, and old processors
            # run it as bsf with the same result.
            if instruction.mnemonic != iced.Mnemonic.TZCNT:
                for feature in instruction.cpuid_features():
                    name = names[feature]
                    if name is not None:
                        features[name] += 1
                        example.setdefault(name, f"{instruction.ip:#x}: {instruction}")
            registers = [instruction.op_register(index) for index in range(instruction.op_count)]
            widths[WIDTHS[max((width_of.get(register, 0) for register in registers), default=0)]] += 1
            flow = instruction.flow_control
            if flow in near:
                branches[instruction.near_branch_target] += 1
            elif flow in through_memory and instruction.is_ip_rel_memory_operand:
                function = libm.get(instruction.ip_rel_memory_address)
                if function is not None and flow == iced.FlowControl.INDIRECT_CALL:
                    direct[function] += 1
                elif function is not None:
                    # A stub is this jump, possibly after the marker of a branch target.
                    stubs[instruction.ip] = function
                    stubs[before] = function
            before = instruction.ip
    for target, count in branches.items():
        if target in stubs:
            direct[stubs[target]] += count
    return Contents(
        instructions=total,
        features=dict(features),
        example=example,
        widths={name: widths[name] for name in WIDTHS},
        libm=dict(sorted(direct.items())),
        undecoded=tuple(undecoded),
    )


@functools.cache
def _feature_names() -> Mapping[int, str | None]:
    """The Linux name of each of iced's features; None for what every x86-64 processor runs."""
    kinds = _iced().CpuidFeature
    found: dict[int, str | None] = {}
    for name in dir(kinds):
        if name.isupper():
            old = name.startswith(("INTEL", "FPU")) or name in _EVERYWHERE
            found[getattr(kinds, name)] = None if old else _LINUX_NAMES.get(name, name.lower())
    return found


@functools.cache
def _register_widths() -> Mapping[int, int]:
    """The index in WIDTHS of each vector register."""
    registers = _iced().Register
    return {
        getattr(registers, f"{kind.upper()}{number}"): WIDTHS.index(kind)
        for kind in WIDTHS[1:]
        for number in range(32)
    }
