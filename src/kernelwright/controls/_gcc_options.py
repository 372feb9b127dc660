"""What GCC says of its own options, and which of them change nothing but speed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from kernelwright.errors import NoCompilerError
from kernelwright.machine import Compiler
from kernelwright.machine import find_compilers
from kernelwright.process import Limits
from kernelwright.process import run
from kernelwright.space import Choice
from kernelwright.space import choice
from kernelwright.space import Flag
from kernelwright.space import Parameter
from kernelwright.space import Range

_LIMITS = Limits(wall_s=20.0)

#: Options that change results of floating point, or of a program's race with another.
_UNSAFE = frozenset(
    {
        "-fallow-store-data-races",
        "-fassociative-math",
        "-fcx-fortran-rules",
        "-fcx-limited-range",
        "-ffinite-math-only",
        "-ffloat-store",
        "-ffp-contract",
        "-ffp-int-builtin-inexact",
        "-fmath-errno",
        "-freciprocal-math",
        "-frounding-math",
        "-fsignaling-nans",
        "-fsigned-zeros",
        "-fsingle-precision-constant",
        "-ftrapping-math",
        "-funsafe-math-optimizations",
    }
)

#: Options of the language, the ABI, debuggers, profiles and hardening, and those that need other libraries.
_OTHER = frozenset(
    {
        "-fbranch-probabilities",
        "-fdelayed-branch",
        "-fdelete-dead-exceptions",
        "-fexcess-precision",
        "-fgraphite",
        "-fgraphite-identity",
        "-fharden-compares",
        "-fharden-conditional-branches",
        "-fkeep-gc-roots-live",
        "-flifetime-dse",
        "-flive-patching",
        "-floop-nest-optimize",
        "-floop-parallelize-all",
        "-fnon-call-exceptions",
        "-fopt-info",
        "-fpack-struct",
        "-fplt",
        "-freg-struct-return",
        "-fsave-optimization-record",
        "-fsched-spec-load-dangerous",
        "-fsection-anchors",
        "-fsemantic-interposition",
        "-fshort-enums",
        "-fshort-wchar",
        "-fstrict-aliasing",
        "-ftrapv",
        "-ftrivial-auto-var-init",
        "-funconstrained-commons",
        "-funroll-completely-grow-size",
        "-fvpt",
        "-fwrapv",
        "-fwrapv-pointer",
    }
)
_OTHER_BEGIN = ("-fasynchronous-", "-funwind-", "-fprofile-", "-fstack-", "-fvar-tracking")

#: What a parameter is about that may change the speed of what is compiled.
_ABOUT = re.compile(
    r"align|avg-loop|case-values|completely|fsm|gcse|inline|inlining|ipa-|iv-|jump-thread|large-|lim-|loop|peel"
    r"|pipeline|predictable|prefetch|reassoc|sched|split|sra|store-merging|tracer|unroll|unswitch|vect"
)
_ALIGNMENTS = (1, 8, 16, 32, 64)


def find_gcc(path: Path | str | None) -> Compiler:
    """The GCC at `path`, else the first one here. Raises NoCompilerError when there is none."""
    if path is not None:
        wanted = shutil.which(str(path))
        if wanted is None:
            raise NoCompilerError(f"there is no compiler {str(path)!r}; name the path of a g++")
        return Compiler(Path(wanted), "gcc", "", "")
    known = find_compilers()
    for compiler in known:
        if compiler.kind == "gcc":
            return compiler
    here = ", ".join(map(str, known)) or "no compiler"
    raise NoCompilerError(
        f"the options of GCC are asked of GCC itself, and none is here (found: {here}): install one (Debian, "
        "Ubuntu: apt install g++; without root: conda install -c conda-forge gxx), or set CXX to its path"
    )


def read_options(compiler: Compiler, *, unsafe: bool) -> dict[str, Parameter]:
    """The options that change speed alone (with `unsafe`, results too): `-fname`, on or off or one of a list.

    Raises NoCompilerError when the compiler does not say.
    """
    found: dict[str, Parameter] = {}
    for line in _ask(compiler, "optimizers"):
        name, _, state = line.strip().partition(" ")
        stem = name.partition("=")[0]
        if not stem.startswith("-f") or stem in _OTHER or stem.startswith(_OTHER_BEGIN):
            continue
        if stem in _UNSAFE and not unsafe:
            continue
        listed = re.search(r"=\[([^\]]+)\]$", name)
        if listed:
            found[stem] = choice(listed[1].split("|"))
        elif stem.startswith("-falign-"):
            found[stem] = Choice(_ALIGNMENTS, log=True)
        elif "=" not in name and state.strip() in ("[enabled]", "[disabled]"):
            found[stem] = Flag()
    return found


def read_params(compiler: Compiler, *, among: Iterable[str] | None = None) -> dict[str, Parameter]:
    """The parameters `--param=name`: those about loops, inlining, vectors and the like, or those named.

    Each from a quarter of the compiler's own value to four times it, within the bounds that it states.
    Raises NoCompilerError when the compiler does not say.
    """
    wanted = None if among is None else set(among)
    found: dict[str, Parameter] = {}
    for line in _ask(compiler, "params"):
        said = re.fullmatch(r"--param=([\w-]+)=(?:<(\d+),(\d+)>)?\s+(\d+)", line.strip())
        if said is None or not (_ABOUT.search(said[1]) if wanted is None else said[1] in wanted):
            continue
        least, most = int(said[2] or 0), int(said[3] or 2**31 - 1)
        low, high = max(least, int(said[4]) // 4), min(most, max(4 * int(said[4]), 16))
        if low < high:
            found[f"--param={said[1]}"] = Range(low, high, log=low > 0 and high > 8 * low)
    return found


def _ask(compiler: Compiler, what: str) -> list[str]:
    outcome = run(
        [str(compiler.path), "-Q", f"--help={what}"], limits=_LIMITS, env={**os.environ, "LC_ALL": "C"}
    )
    lines = outcome.stdout.splitlines()
    if outcome.returncode != 0 or len(lines) < 10:
        raise NoCompilerError(
            f"{compiler.path} does not say what its {what} are (-Q --help={what}: {outcome.describe()}); "
            "name a GCC"
        )
    return lines
