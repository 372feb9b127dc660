"""Triton's options, and those of its ptxas, as a search space."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from kernelwright.controls._assignments import assignment
from kernelwright.controls._cuda_help import read_help
from kernelwright.controls._cuda_offers import ptxas_offers
from kernelwright.controls._cuda_probe import accepted
from kernelwright.controls._cuda_spaces import word_of
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import Level
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant
from kernelwright.controls._triton_options import launch_options
from kernelwright.controls._triton_options import triton_ptxas
from kernelwright.controls._triton_options import triton_version
from kernelwright.machine import find_cuda_tool
from kernelwright.space import Value

#: What Triton has options of its own for: caps on registers, contraction; blocks are as large as its warps.
_TRITONS = ("--maxrregcount", "--minnctapersm", "--fmad")
#: Those of ptxas, which assembles at 3 unless told; what Triton itself does has no level.
_LEVELS: Mapping[Level, tuple[str, ...]] = {
    "lowest": ("--opt-level=0",),
    "baseline": ("--opt-level=3",),
    "highest": ("--opt-level=3",),
}


class TritonSearchSpace(CompilerSearchSpace):
    """The options of the Triton and the ptxas that are here: launch options and `ptx_options` together.

    Launch options are those that Triton's `CUDAOptions` has; ptxas's are what its `--help` lists, each tried
    on a tiny kernel, as for PtxasSearchSpace.

    Args:
        compiler: the ptxas to assemble with, else the one that Triton finds.
        arch: compute capability, 90 for sm_90.
        variant: `default`; `attention` (main loops of products: warps, stages, clusters, registers);
            `memory_bound` (warps and cache policies); `wide` (all).
        unsafe_math: also what changes results: contraction to FMA, flushing in libdevice, atomics, cache
            policies forced on accesses that ask for another.
        options: names such as `num_warps` or `--register-usage-level`, to search these alone.
        knockout_prob: the chance of each option to be left to the kernel's own.

    Raises MissingExtraError without Triton, NoCompilerError without a ptxas, UnknownNameError for an
    option that they do not have.
    """

    tool: ClassVar[str] = "triton"
    title: ClassVar[str] = "Triton"

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        arch: int = 90,
        variant: Variant = "default",
        unsafe_math: bool = False,
        options: Iterable[str] | None = None,
        knockout_prob: float = 0.6,
    ) -> None:
        self.arch = arch
        ptxas = find_cuda_tool("ptxas", triton_ptxas(arch) if compiler is None else compiler)
        about = variant if options is None else "wide"
        own = launch_options(about, unsafe=unsafe_math, clusters=arch >= 90)
        listed = ptxas_offers(read_help(ptxas), about, unsafe=unsafe_math)
        theirs = {name: one for name, one in listed.items() if name not in _TRITONS}
        chosen = selected(own | theirs, options, f"Triton {triton_version()} and its {ptxas}")
        theirs = {name: one for name, one in chosen.items() if name in theirs}
        taken = accepted(ptxas, f"sm_{arch}", theirs, word_of)
        super().__init__(
            ptxas.path,
            f"triton {triton_version()}, {ptxas}, sm_{arch}",
            {name: taken.get(name, one) for name, one in chosen.items() if name in own or name in taken},
            _LEVELS,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )

    def _word(self, name: str, value: Value) -> str:
        if name.startswith("-"):
            return word_of(name, value)
        assert isinstance(value, bool | int | str)
        return assignment(name, value)
