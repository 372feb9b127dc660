"""What GCC says of its own options, and which of them change nothing but speed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from collections.abc import Mapping

from kernelwright.controls._asking import ask
from kernelwright.controls._cpu_space import around
from kernelwright.controls._cpu_space import vector_widths
from kernelwright.errors import NoCompilerError
from kernelwright.machine import Compiler
from kernelwright.space import Choice
from kernelwright.space import choice
from kernelwright.space import Flag
from kernelwright.space import Parameter

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
        "-finline-atomics",
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
#: What the smaller variants are about, in the names of flags and parameters.
_VARIANTS = {
    "attention": re.compile(
        r"align|completely|gcse|inline|ira-|iv-|ivopts|jam|live-range|modulo|move-loop|peel|pressure|reassoc"
        r"|rename-reg|sched|slp|sms|split-loops|split-wide|sra|tracer|tree-pre|unroll|unswitch|vect|-fweb"
    ),
    "memory_bound": re.compile(
        r"align|distribut|if-conversion|interchange|iv-|ivopts|lim|loop|memory|peel|prefetch|schedule-insns"
        r"|store|unroll|vect|version"
    ),
}
#: Parameters that are about something else than the speed of what is compiled.
_NOT_ABOUT = re.compile(
    r"analyzer|asan|avoid-fma|canonical|cxx-|debug|ggc|gimple|hash-table|interference|isl|lazy|lto|openacc|pagesize"
    r"|parloops|profile|ranger|ssp-|stack-clash|tm-|tsan|uninit|use-after|vartrack|verif"
)
_ALIGNMENTS = (1, 8, 16, 32, 64)


def in_variant(variant: str, names: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Those of these options, and those of these parameters, that a variant is about."""
    about = _VARIANTS.get(variant)
    return {name: one for name, one in names.items() if about is None or about.search(name)}


@functools.lru_cache(maxsize=16)
def read_options(compiler: Compiler, *, unsafe: bool) -> Mapping[str, Parameter]:
    """The options that change speed alone (with `unsafe`, results too): `-fname`, on or off or one of a list,
    and the width of vectors that is preferred.

    Raises NoCompilerError when the compiler does not say.
    """
    found: dict[str, Parameter] = {}
    for line in _listed(compiler, "optimizers"):
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
    target = "\n".join(_listed(compiler, "target"))
    widths = re.search(r"-mprefer-vector-width= option\):\n((?:.+\n)+)", target)
    return found | vector_widths(widths[1].split() if widths else ())


def read_params(
    compiler: Compiler, *, among: Iterable[str] | None = None, wide: bool = False
) -> dict[str, Parameter]:
    """The parameters `--param=name`: those about loops, inlining, vectors and the like, or those named.

    With `wide`, all but those that are surely about something else.

    Each from a quarter of the compiler's own value to four times it, within the bounds that it states.
    Raises NoCompilerError when the compiler does not say.
    """
    wanted = None if among is None else set(among)
    found: dict[str, Parameter] = {}
    for line in _listed(compiler, "params"):
        said = re.fullmatch(r"--param=([\w-]+)=(?:<(\d+),(\d+)>)?\s+(\d+)", line.strip())
        if said is None or not (_is_about(said[1], wide=wide) if wanted is None else said[1] in wanted):
            continue
        least, most = int(said[2] or 0), int(said[3] or 2**31 - 1)
        one = around(int(said[4]), least=least, most=most)
        if one is not None:
            found[f"--param={said[1]}"] = one
    return found


def _is_about(name: str, *, wide: bool) -> bool:
    return _ABOUT.search(name) is not None or (wide and _NOT_ABOUT.search(name) is None)


@functools.lru_cache(maxsize=16)
def _listed(compiler: Compiler, what: str) -> list[str]:
    outcome, said = ask([compiler.path, "-Q", f"--help={what}"])
    lines = said.splitlines()
    if not outcome.ok or len(lines) < 10:
        raise NoCompilerError(
            f"{compiler.path} does not say what its {what} are (-Q --help={what}: {outcome.describe()}); "
            "name a GCC"
        )
    return lines
