"""GCC's optimisation options as a search space."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

from kernelwright.controls._gcc_options import find_gcc
from kernelwright.controls._gcc_options import read_options
from kernelwright.controls._gcc_options import read_params
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant
from kernelwright.controls._tools import register_tool
from kernelwright.controls._tools import Tool
from kernelwright.space import Choice
from kernelwright.space import Parameter
from kernelwright.space import Value

_LEVEL = "-O"

register_tool(Tool("gcc", macros=True))
register_tool(Tool("clang", macros=True))


class GccSearchSpace(CompilerSearchSpace):
    """The options of the GCC that is here, as it lists them itself: a provider for `Search`.

    A configuration says for each option what it shall be, or nothing (it is knocked out: the level's own
    setting stays). The objective gets a hex string, for `save_compiler_config` and then `g++ @file`; where
    everything is knocked out, `{}`. Options that change the meaning of a program (the ABI, hardening, debug)
    are left out, and those that change results of floating point as well, unless `unsafe_math`.

    Args:
        compiler: a path; else the first GCC of `kernelwright.machine.find_compilers`.
        levels: what is chosen from as `-O…`; the first is the default.
        options: names such as `-funroll-loops`, to search these alone.
        params: True for the `--param`s about loops, inlining, vectors and the like, False for none, or names.
        unsafe_math: also the options that change results.
        knockout_prob: the chance of each option to be left to the level.

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
        found = find_gcc(compiler)
        choices = [level.removeprefix(_LEVEL) for level in levels]
        parameters: dict[str, Parameter] = {_LEVEL: Choice(choices)} if choices else {}
        parameters |= selected(read_options(found, unsafe=unsafe_math), options, self.title)
        if params is not False:
            parameters |= read_params(found, among=None if params is True else params)
        super().__init__(
            found.path,
            f"{found.kind} {found.version} ({found.target})",
            parameters,
            {"lowest": ("-O0",), "baseline": (baseline,), "highest": ("-O3",)},
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )

    def _word(self, name: str, value: Value) -> str:
        if name == _LEVEL:
            return f"{_LEVEL}{value}"
        if isinstance(value, bool):
            return name if value else f"-fno-{name.removeprefix('-f')}"
        return f"{name}={value}"
