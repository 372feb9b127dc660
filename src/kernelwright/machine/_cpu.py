"""The processor: what it is, and what it can do as the operating system enables it."""

from __future__ import annotations

import ctypes
import functools
import platform
from dataclasses import dataclass
from pathlib import Path

from kernelwright.machine._cpuid import Instructions
from kernelwright.machine._cpuid import instructions

# Where CPUID shows each feature: (leaf, subleaf, register) -> {bit: the name Linux uses}.
_FEATURE_BITS: dict[tuple[int, int, str], dict[int, str]] = {
    (1, 0, "edx"): {15: "cmov", 23: "mmx", 25: "sse", 26: "sse2"},
    (1, 0, "ecx"): {
        0: "pni",
        1: "pclmulqdq",
        9: "ssse3",
        12: "fma",
        13: "cx16",
        19: "sse4_1",
        20: "sse4_2",
        22: "movbe",
        23: "popcnt",
        25: "aes",
        28: "avx",
        29: "f16c",
        30: "rdrand",
        31: "hypervisor",
    },
    (7, 0, "ebx"): {
        3: "bmi1",
        5: "avx2",
        8: "bmi2",
        9: "erms",
        16: "avx512f",
        17: "avx512dq",
        18: "rdseed",
        19: "adx",
        21: "avx512ifma",
        23: "clflushopt",
        24: "clwb",
        28: "avx512cd",
        29: "sha_ni",
        30: "avx512bw",
        31: "avx512vl",
    },
    (7, 0, "ecx"): {
        1: "avx512vbmi",
        6: "avx512_vbmi2",
        8: "gfni",
        9: "vaes",
        10: "vpclmulqdq",
        11: "avx512_vnni",
        12: "avx512_bitalg",
        14: "avx512_vpopcntdq",
        25: "cldemote",
        27: "movdiri",
        28: "movdir64b",
    },
    (7, 0, "edx"): {
        4: "fsrm",
        8: "avx512_vp2intersect",
        14: "serialize",
        22: "amx_bf16",
        23: "avx512_fp16",
        24: "amx_tile",
        25: "amx_int8",
    },
    (7, 1, "eax"): {4: "avx_vnni", 5: "avx512_bf16", 21: "amx_fp16", 23: "avx_ifma"},
    (0x80000001, 0, "ecx"): {5: "abm", 8: "3dnowprefetch"},
}
_OSXSAVE = 1 << 27  # leaf 1, ecx

# Register state that the operating system has to save for a feature to be usable, as bits of XCR0.
_XCR0_AVX = 0b110
_XCR0_AVX512 = 0b1110_0110
_XCR0_AMX = 0b11 << 17
_NEEDS_AVX_STATE = frozenset({"avx", "avx2", "fma", "f16c", "vaes", "vpclmulqdq", "avx_vnni", "avx_ifma"})

_SYS_ARCH_PRCTL = 158
_ARCH_GET_XCOMP_PERM = 0x1022
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


@dataclass(frozen=True)
class Cpu:
    """A processor.

    `features` are those that programs may use here, in the names Linux uses. `emulated` says that CPUID and
    /proc/cpuinfo describe different processors, as under qemu-user; then CPUID is believed. `source` says
    where the features were read. `amx_permission` is whether the kernel lets this process use AMX tiles; None
    where the processor has none.
    """

    vendor: str
    model: str
    architecture: str
    features: frozenset[str]
    amx_permission: bool | None
    emulated: bool
    source: str


@functools.cache
def detect_cpu() -> Cpu:
    """Look at the processor that runs this."""
    listed = _read_cpuinfo()
    executed = instructions()
    if executed is None:
        flags = listed.get("flags") or listed.get("Features") or ""
        return _cpu(
            vendor=listed.get("vendor_id") or listed.get("CPU implementer") or "unknown",
            model=listed.get("model name") or listed.get("CPU part") or "unknown",
            features=frozenset(flags.split()),
            emulated=False,
            source="/proc/cpuinfo",
        )
    vendor, model, signature = identity(executed)
    features = decode_features(executed)
    same = (vendor, model, signature) == _listed_identity(listed)
    if same:
        # Linux also hides what the administrator switched off (clearcpuid=) or an erratum forbids.
        features &= frozenset(listed["flags"].split())
    return _cpu(
        vendor=vendor,
        model=model,
        features=features,
        emulated=bool(listed) and not same,
        source="CPUID, XGETBV and /proc/cpuinfo" if same else "CPUID and XGETBV",
    )


def _cpu(*, vendor: str, model: str, features: frozenset[str], emulated: bool, source: str) -> Cpu:
    permission = _request_amx() if "amx_tile" in features else None
    return Cpu(vendor, model, platform.machine(), features, permission, emulated, source)


def identity(executed: Instructions) -> tuple[str, str, tuple[int, int, int]]:
    """Vendor, model name, and (family, model, stepping), as CPUID tells them."""
    first = executed.cpuid(0, 0)
    vendor = b"".join(word.to_bytes(4, "little") for word in (first.ebx, first.edx, first.ecx)).decode(
        "latin-1"
    )
    name = b""
    if executed.cpuid(0x80000000, 0).eax >= 0x80000004:
        for leaf in (0x80000002, 0x80000003, 0x80000004):
            part = executed.cpuid(leaf, 0)
            name += b"".join(word.to_bytes(4, "little") for word in (part.eax, part.ebx, part.ecx, part.edx))
    model = " ".join(name.split(b"\0")[0].decode("latin-1").split())
    eax = executed.cpuid(1, 0).eax
    family, number = eax >> 8 & 0xF, eax >> 4 & 0xF
    if family in (0x6, 0xF):
        number |= (eax >> 16 & 0xF) << 4
    if family == 0xF:
        family += eax >> 20 & 0xFF
    return vendor, model, (family, number, eax & 0xF)


def decode_features(executed: Instructions) -> frozenset[str]:
    """What CPUID shows, less what needs register state that XCR0 does not enable."""
    highest = executed.cpuid(0, 0).eax
    highest_extended = executed.cpuid(0x80000000, 0).eax
    found: set[str] = set()
    for (leaf, subleaf, register), bits in _FEATURE_BITS.items():
        if leaf > (highest_extended if leaf >= 0x80000000 else highest):
            continue
        if subleaf > 0 and executed.cpuid(leaf, 0).eax < subleaf:
            continue
        value = getattr(executed.cpuid(leaf, subleaf), register)
        found.update(name for bit, name in bits.items() if value >> bit & 1)
    state = executed.xgetbv(0) if executed.cpuid(1, 0).ecx & _OSXSAVE else 0
    return frozenset(name for name in found if _state_needed(name) & ~state == 0)


def _state_needed(feature: str) -> int:
    if feature.startswith("avx512"):
        return _XCR0_AVX512
    if feature.startswith("amx"):
        return _XCR0_AMX
    return _XCR0_AVX if feature in _NEEDS_AVX_STATE else 0


def _read_cpuinfo(path: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """The entry of the first processor; empty when there is none to read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    entry = {}
    for line in text.strip().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        entry[key.strip()] = value.strip()
    return entry


def _listed_identity(listed: dict[str, str]) -> tuple[str, str, tuple[int, int, int]] | None:
    try:
        signature = int(listed["cpu family"]), int(listed["model"]), int(listed["stepping"])
        return listed["vendor_id"], " ".join(listed["model name"].split()), signature
    except (KeyError, ValueError):
        return None


def _request_amx() -> bool:
    """Ask the kernel for the right to use AMX tile data, which each process has to do once."""
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.c_uint64(0)
    if libc.syscall(_SYS_ARCH_PRCTL, _ARCH_GET_XCOMP_PERM, ctypes.byref(held)) == 0 and (
        held.value >> _XFEATURE_XTILEDATA & 1
    ):
        return True
    return bool(libc.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0)
