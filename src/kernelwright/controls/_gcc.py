"""GCC's optimisation options as a search space."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

from kernelwright.controls._cpu_space import CpuSearchSpace
from kernelwright.controls._cpu_space import find_cpu_compiler
from kernelwright.controls._gcc_options import in_variant
from kernelwright.controls._gcc_options import read_options
from kernelwright.controls._gcc_options import read_params
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant


class GccSearchSpace(CpuSearchSpace):
    """The options of the GCC that is here, as it lists them itself: a provider for `Search`.

    A configuration says for each option what it shall be, or nothing (it is knocked out: the level's own
    setting stays). The objective gets a hex string, for `save_compiler_config` and then `g++ @file`; where
    everything is knocked out, `{}`. Options that change the meaning of a program (the ABI, hardening, debug)
    are left out, and those that change results of floating point as well, unless `unsafe_math`.

    Args:
        compiler: a path; else the first GCC of `kernelwright.machine.find_compilers`.
        levels: what is chosen from as `-O…`; the first is the default.
        options: names such as `-funroll-loops`, to search these alone.
        params: True for the `--param`s of the variant, False for none, or names.
        variant: `default`, `attention`, `memory_bound` or `wide`: which options, where they are not named.
        unsafe_math: also the options that change results.
        knockout_prob: the chance of each option to be left to the level.
        baseline: the level that the target is compiled with, for the canary.

    Raises NoCompilerError when there is no GCC here; UnknownNameError for an option that it does not have.
    """

    tool = "gcc"
    title = "GCC"

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        levels: Sequence[str] = ("-O2", "-O3"),
        options: Iterable[str] | None = None,
        params: bool | Iterable[str] = True,
        variant: Variant = "default",
        unsafe_math: bool = False,
        knockout_prob: float = 0.8,
        baseline: str = "-O3",
    ) -> None:
        found = find_cpu_compiler(self.tool, self.title, "g++", compiler)
        known = read_options(found, unsafe=unsafe_math)
        parameters = in_variant(variant, known) if options is None else selected(known, options, self.title)
        if params is True:
            parameters |= in_variant(variant, read_params(found, wide=variant == "wide"))
        elif params is not False:
            parameters |= read_params(found, among=params)
        super().__init__(
            found,
            parameters,
            levels=levels,
            baseline=baseline,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )
