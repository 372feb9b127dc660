"""ISA tiers: the levels of instruction sets that kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright import settings
from kernelwright.errors import UnknownNameError
from kernelwright.machine._cpu import detect_cpu


@dataclass(frozen=True)
class Tier:
    """A level of instruction sets, and the processor features it needs, in the names Linux uses."""

    name: str
    requires: frozenset[str]


_AVX2 = frozenset({"avx", "avx2", "fma", "f16c", "bmi1", "bmi2"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}

TIERS: tuple[Tier, ...] = (
    Tier("generic", frozenset()),
    Tier("avx2", _AVX2),
    Tier("avx512", _AVX512),
    Tier("avx512_bf16", _AVX512 | {"avx512_bf16"}),
)
"""Every tier, low to high; each needs all that the one below it needs. `generic` is plain x86-64."""


def supported_tiers(features: frozenset[str]) -> tuple[str, ...]:
    """The tiers that a processor with `features` can run, low to high."""
    return tuple(tier.name for tier in TIERS if tier.requires <= features)


def available_tiers() -> tuple[str, ...]:
    """The tiers that may be used here, low to high: what the machine has, capped by KERNELWRIGHT_TIER.

    Raises UnknownNameError when that variable names no tier.
    """
    names = [tier.name for tier in TIERS]
    cap = settings.tier()
    if cap is not None and cap not in names:
        raise UnknownNameError("ISA tier (KERNELWRIGHT_TIER)", cap, names)
    allowed = names if cap is None else names[: names.index(cap) + 1]
    return tuple(name for name in supported_tiers(detect_cpu().features) if name in allowed)
