"""Clang's optimisation options, and LLVM's, as a search space."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

from kernelwright.controls._clang_options import read_flags
from kernelwright.controls._clang_options import read_llvm
from kernelwright.controls._cpu_space import CpuSearchSpace
from kernelwright.controls._cpu_space import find_cpu_compiler
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant


class ClangSearchSpace(CpuSearchSpace):
    """The options of the clang that is here, and LLVM's behind `-mllvm`: a provider for `Search`.

    As `GccSearchSpace`, for `clang++ @file`. LLVM has some two thousand options; those searched are a curated
    set, of which this clang lists and takes every one. `-mllvm -force-vector-width`, which lets sums of
    floating point be reordered, is among those that need `unsafe_math`.

    Args:
        compiler: a path; else the first clang of `kernelwright.machine.find_compilers`.
        levels: what is chosen from as `-O…`; the first is the default.
        options: names such as `-fvectorize` and `-mllvm -unroll-count`, to search these alone.
        llvm: whether to search LLVM's options too, where none are named.
        variant: `default`, `attention`, `memory_bound` or `wide`: which of LLVM's options.
        unsafe_math: also the options that change results.
        knockout_prob: the chance of each option to be left to the level.
        baseline: the level that the target is compiled with, for the canary.

    Raises NoCompilerError when there is no clang here; UnknownNameError for an option that it does not have.
    """

    tool = "clang"
    title = "Clang"

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        levels: Sequence[str] = ("-O2", "-O3"),
        options: Iterable[str] | None = None,
        llvm: bool = True,
        variant: Variant = "default",
        unsafe_math: bool = False,
        knockout_prob: float = 0.8,
        baseline: str = "-O3",
    ) -> None:
        found = find_cpu_compiler(self.tool, self.title, "clang++", compiler)
        known = dict(read_flags(found, unsafe=unsafe_math))
        if llvm or options is not None:
            searched = variant if options is None else "wide"
            known |= read_llvm(found, variant=searched, unsafe=unsafe_math)
        super().__init__(
            found,
            selected(known, options, self.title),
            levels=levels,
            baseline=baseline,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )
