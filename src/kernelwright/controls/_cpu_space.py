"""What the search spaces of gcc and clang have in common."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import Variant
from kernelwright.errors import NoCompilerError
from kernelwright.machine import Compiler
from kernelwright.machine import compiler_at
from kernelwright.machine import find_compilers
from kernelwright.space import Choice
from kernelwright.space import choice
from kernelwright.space import Parameter
from kernelwright.space import Range
from kernelwright.space import Value

LEVEL = "-O"


class CpuSearchSpace(CompilerSearchSpace):
    """Options of a C++ compiler: `-O…`, `-fname` and `-fno-name`, `name=value`."""

    def __init__(
        self,
        compiler: Compiler,
        parameters: Mapping[str, Parameter],
        *,
        levels: Sequence[str],
        baseline: str,
        variant: Variant,
        unsafe_math: bool,
        knockout_prob: float,
    ) -> None:
        choices = [level.removeprefix(LEVEL) for level in levels]
        level: dict[str, Parameter] = {LEVEL: Choice(choices)} if choices else {}
        super().__init__(
            compiler.path,
            f"{compiler.kind} {compiler.version} ({compiler.target})",
            {**level, **parameters},
            {"lowest": ("-O0",), "baseline": (baseline,), "highest": ("-O3",)},
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )

    def _word(self, name: str, value: Value) -> str:
        return option(name, value)


def option(name: str, value: Value) -> str:
    """What sets an option of these compilers to a value, in one line."""
    if name == LEVEL:
        return f"{LEVEL}{value}"
    if not isinstance(value, bool):
        return f"{name}={value}"
    if name.startswith("-f"):
        return name if value else f"-fno-{name.removeprefix('-f')}"
    return f"{name}={'true' if value else 'false'}"


def find_cpu_compiler(kind: str, title: str, command: str, path: Path | str | None) -> Compiler:
    """The compiler at `path`, else the first of this kind here. Raises NoCompilerError when there is none."""
    if path is not None:
        wanted = shutil.which(str(path))
        if wanted is None:
            raise NoCompilerError(f"there is no compiler {str(path)!r}; name the path of a {command}")
        found = compiler_at(wanted)
        if found is not None and found.kind != kind:
            raise NoCompilerError(f"{wanted} is {found}, and not {title}; name the path of a {command}")
        return found or Compiler(Path(wanted), kind, "unknown", "unknown")
    known = find_compilers()
    for compiler in known:
        if compiler.kind == kind:
            return compiler
    here = ", ".join(map(str, known)) or "no compiler"
    package = "gxx" if kind == "gcc" else "clangxx"
    raise NoCompilerError(
        f"the options of {title} are asked of {title} itself, and none is here (found: {here}): install one "
        f"(Debian, Ubuntu: apt install {command.removesuffix('++') if kind == 'clang' else command}; without "
        f"root: conda install -c conda-forge {package}), or set CXX to its path"
    )


def around(default: int, *, least: int = 0, most: int = 2**31 - 1) -> Range | None:
    """From a quarter of the compiler's own value to four times it, in bounds; None where that is empty."""
    low, high = max(least, default // 4), min(most, max(4 * default, 16))
    return Range(low, high, log=low > 0 and high > 8 * low) if low < high else None


def vector_widths(listed: Iterable[str]) -> dict[str, Parameter]:
    """`-mprefer-vector-width=`, of the widths that the compiler lists or takes."""
    widths = [width for width in ("128", "256", "512") if width in listed]
    return {"-mprefer-vector-width": choice(widths)} if len(widths) > 1 else {}
