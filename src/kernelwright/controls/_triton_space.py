"""Triton's options, and those of its ptxas, as a search space."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from kernelwright.controls._assignments import assignment
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import Level
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant
from kernelwright.controls._triton_options import launch_options
from kernelwright.controls._triton_options import ptxas_help
from kernelwright.controls._triton_options import triton_ptxas
from kernelwright.controls._triton_options import triton_version
from kernelwright.controls._triton_ptxas import BARE
from kernelwright.controls._triton_ptxas import ptxas_options
from kernelwright.space import Value

#: What each variant is about; `wide` is everything.
_ABOUT: Mapping[str, str] = {
    "default": r"num_warps|num_stages|maxnreg|--opt-level|--register-usage|--allow-exp|--def-",
    "attention": r"num_|maxnreg|--opt-level|--register-usage|--allow-exp|--disable-opt",
    "memory_bound": r"num_warps|num_ctas|maxnreg|--opt-level|--def-|--force-",
    "wide": r"",
}
#: Options that change results belong to every variant, once they are asked for.
_UNSAFE = r"enable_fp_fusion|enable_reflect_ftz|--optimize-float"


class TritonSearchSpace(CompilerSearchSpace):
    """The options of the Triton and the ptxas that are here: launch options and `ptx_options` together.

    Args:
        compiler: the ptxas to assemble with, else the one that Triton finds.
        arch: compute capability, 90 for sm_90.
        variant: `default`; `attention` (main loops of products: warps, stages, clusters, registers);
            `memory_bound` (warps and cache policies); `wide` (all).
        unsafe_math: also what changes results: contraction to FMA, flushing in libdevice, atomics.
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
        ptxas = triton_ptxas(arch) if compiler is None else Path(compiler).absolute()
        known = {
            **launch_options(unsafe=unsafe_math, everything=variant == "wide" or options is not None),
            **ptxas_options(ptxas, unsafe=unsafe_math),
        }
        if arch < 90:
            known.pop("num_ctas", None)
        about = _ABOUT.get(variant, "")
        named = [name for name in known if re.match(f"{about}|{_UNSAFE}" if about else "", name)]
        release = re.search(r"\bV(\d[\d.]*)", ptxas_help(ptxas))
        super().__init__(
            ptxas,
            f"triton {triton_version()}, ptxas {release[1] if release else 'unknown'}, sm_{arch}",
            selected(known, named if options is None else options, self.title),
            _LEVELS,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )

    def _word(self, name: str, value: Value) -> str:
        if name in BARE:
            return name
        assert isinstance(value, bool | int | str)
        return assignment(name, value)


#: Those of ptxas, which assembles at 3 unless told; what Triton itself does has no level.
_LEVELS: Mapping[Level, tuple[str, ...]] = {
    "lowest": ("--opt-level=0",),
    "baseline": ("--opt-level=3",),
    "highest": ("--opt-level=3",),
}
