"""What clang says of its own options and of LLVM's, and what it takes."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from collections.abc import Sequence

from kernelwright.controls import _llvm_options
from kernelwright.controls._asking import ask
from kernelwright.controls._cpu_space import around
from kernelwright.controls._cpu_space import option
from kernelwright.controls._cpu_space import vector_widths
from kernelwright.errors import NoCompilerError
from kernelwright.machine import Compiler
from kernelwright.space import Choice
from kernelwright.space import choice
from kernelwright.space import Flag
from kernelwright.space import Parameter

#: Flags about loops, vectors and code layout, of those that `--help-hidden` lists.
_ABOUT = re.compile(
    r"align-(loops|functions)|finite-loops|inline-(functions|hint-functions)|jump-tables|reroll-loops"
    r"|slp-vectorize|unroll-loops|vectorize"
)
#: Flags that change results of floating point; some are taken without being listed.
_UNSAFE: Mapping[str, Parameter] = {
    "-fapprox-func": Flag(),
    "-fassociative-math": Flag(),
    "-ffinite-math-only": Flag(),
    "-ffp-contract": choice(["off", "on", "fast"]),
    "-fmath-errno": Flag(),
    "-freciprocal-math": Flag(),
    "-frounding-math": Flag(),
    "-fsigned-zeros": Flag(),
    "-ftrapping-math": Flag(),
    "-funsafe-math-optimizations": Flag(),
}
_ALIGNMENTS = (16, 32, 64)
#: Warnings by which clang says that it ignores an option.
_IGNORED = (
    "-Werror=unused-command-line-argument",
    "-Werror=ignored-optimization-argument",
    "-Werror=overriding-t-option",
)
_NOTHING = ("-x", "c++", "-c", "/dev/null", "-o", "/dev/null")
MLLVM = "-mllvm -"


@functools.lru_cache(maxsize=16)
def read_flags(compiler: Compiler, *, unsafe: bool) -> Mapping[str, Parameter]:
    """The flags that change speed alone (with `unsafe`, results too), which this clang takes on and off.

    Raises NoCompilerError when the compiler does not say.
    """
    listed = _said(compiler, "--help-hidden", least=100)
    names = re.findall(r"^  -f(?:no-)?([a-z][a-z0-9-]*)(?:=<\w+>)?(?= |$)", listed, re.MULTILINE)
    offered: dict[str, Parameter] = {
        f"-f{name}": Choice(_ALIGNMENTS, log=True) if name.startswith("align-") else Flag()
        for name in dict.fromkeys(names)
        if _ABOUT.fullmatch(name)
    }
    if "-mprefer-vector-width=" in listed:
        offered |= vector_widths(("128", "256", "512"))
    return _taken(compiler, {**offered, **(_UNSAFE if unsafe else {})})


@functools.lru_cache(maxsize=32)
def read_llvm(compiler: Compiler, *, variant: str, unsafe: bool) -> Mapping[str, Parameter]:
    """LLVM's options of a variant, as `-mllvm -name`: those that this clang lists, with values it takes.

    Raises NoCompilerError when the compiler does not say.
    """
    kinds = _kinds(_said(compiler, "-mllvm", "-help-hidden", least=500))
    printed = _said(compiler, "-mllvm", "-print-all-options", least=500)
    defaults = dict(re.findall(r"^\s+--?([\w-]+)\s+= \S+\s+\(default: ([^)]*)\)", printed, re.MULTILINE))
    found: dict[str, Parameter] = {}
    for name, stated in _llvm_options.options_of(variant, unsafe=unsafe).items():
        if name not in kinds:
            continue
        parameter = _parameter(kinds[name], stated, defaults.get(name, ""))
        if parameter is not None:
            found[f"{MLLVM}{name}"] = parameter
    return _taken(compiler, found)


def _kinds(listed: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each option's type (`uint`, `int`, `value`, … or nothing for a bool), and its values where listed."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    name = ""
    for line in listed.splitlines():
        option = re.match(r"\s+--?([A-Za-z][\w-]*)(?:=<([\w ]+)>)?\s+-\s", line)
        value = re.match(r"\s+=(\S+)\s", line)
        if option is not None:
            name = option[1]
            found[name] = (option[2] or "", ())
        elif value is not None and name:
            found[name] = (found[name][0], (*found[name][1], value[1]))
    return found


def _parameter(
    kind: tuple[str, tuple[str, ...]], stated: _llvm_options.Values | None, default: str
) -> Parameter | None:
    """What can be chosen; None where clang states another type than the set knows, or no value to go from."""
    sort, listed = kind
    if sort == "value":
        values = [value for value in stated or () if value in listed]
        return choice(values) if len(values) > 1 else None
    if sort in ("int", "uint", "number"):
        if stated is not None:
            return choice(list(stated))
        return around(int(default)) if default.isdigit() and int(default) > 0 else None
    return Flag() if sort == "" and stated is None else None


def _taken(compiler: Compiler, offered: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Those that clang takes without a complaint, with their first value and their last.

    Asked all at once; where it complains, by halves, so that one option it lacks costs a few calls.
    """

    def keep(names: Sequence[str]) -> list[str]:
        if not names or (takes(names, 0) and takes(names, -1)):
            return list(names)
        half = len(names) // 2
        return keep(names[:half]) + keep(names[half:]) if half else []

    def takes(names: Sequence[str], end: int) -> bool:
        options = [option(name, (offered[name].values() or (offered[name].default,))[end]) for name in names]
        words = [word for one in options for word in one.split(" ")]
        outcome, _ = ask([compiler.path, "-O2", *_IGNORED, *words, *_NOTHING])
        return outcome.ok

    kept = keep(list(offered))
    return {name: offered[name] for name in kept}


def _said(compiler: Compiler, *arguments: str, least: int) -> str:
    """What clang prints for these; help of LLVM's needs something to compile."""
    outcome, said = ask([compiler.path, *arguments, *_NOTHING])
    if not outcome.ok or said.count("\n") < least:
        asked = f"{' '.join(arguments)}: {outcome.describe()}"
        raise NoCompilerError(f"{compiler.path} does not say what its options are ({asked}); name a clang++")
    return said
