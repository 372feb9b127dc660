"""The flags of a build: the base set, macros, and `native` spelled out by the compiler itself."""

from __future__ import annotations

import functools
import itertools
import os
import shlex
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from kernelwright import machine
from kernelwright.errors import BuildError
from kernelwright.errors import UsageError
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import run

#: Every translation unit. The ISA comes from the section's flags alone.
BASE_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-fopenmp")
#: gcc alone: unique symbols would bind two artifacts of one kernel to each other, RTLD_LOCAL or not.
_GCC_FLAGS = ("-fno-gnu-unique",)
#: The link. No undefined symbol may wait for a caller's process to find it, and no path or time gets in.
LINK_FLAGS = ("-shared", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,-Bsymbolic")
#: What a section may say that the link needs too. `-Ofast` and `-ffast-math` must not be among them: they
#: would link start-up code that turns denormals off in the whole process that loads the library.
_LINK_PREFIXES = ("-Wl,", "-l", "-L", "-flto", "-fsanitize", "-fuse-ld", "-static-lib")
#: One OpenMP serves a process: libgomp, torch's own where torch is loaded. g++ links it by itself; for clang,
#: whose runtime would be a second one, its calls are translated by a unit that each library carries.
OPENMP_FOLDER = Path(__file__).parent / "openmp"
OPENMP_FOR_CLANG = OPENMP_FOLDER / "kmp_on_gomp.cpp"
_NATIVE = ("-march=native", "-mtune=native", "-mcpu=native")


def compile_flags(
    section: Sequence[str], macros: Mapping[str, int | str], extra: Sequence[str]
) -> tuple[str, ...]:
    """What each translation unit is compiled with; later flags win, so `extra` may override the section."""
    flags = (*BASE_FLAGS, *macro_flags(macros), *section, *extra)
    for flag in flags:
        if not isinstance(flag, str) or not flag or "\n" in flag or "\0" in flag:
            raise UsageError(f"a compiler flag must be one non-empty line of text; got {flag!r}")
    return flags


def link_flags(kind: str, flags: Sequence[str]) -> tuple[str, ...]:
    """What the library is linked with by a compiler of this kind, given what its units were compiled with."""
    openmp = "-l:libgomp.so.1" if kind == "clang" else "-fopenmp"
    # The word after these is their argument, whatever it looks like: clang has a feature `-lwp`.
    arguments = {index + 1 for index, flag in enumerate(flags) if flag in ("-Xclang", "--param", "-mllvm")}
    own = [
        flag for index, flag in enumerate(flags) if flag.startswith(_LINK_PREFIXES) and index not in arguments
    ]
    # A sanitizer's functions come from the program that loads the library.
    sanitized = any(flag.startswith("-fsanitize") for flag in own)
    base = tuple(flag for flag in LINK_FLAGS if not (sanitized and flag == "-Wl,-z,defs"))
    return (*base, openmp, *own)


def macro_flags(macros: Mapping[str, int | str]) -> tuple[str, ...]:
    """`-DNAME=value`, sorted by name; a bool is 0 or 1."""
    for name in macros:
        if not name.isidentifier():
            raise UsageError(f"a macro needs the name of a C identifier; got {name!r}")
    return tuple(
        f"-D{name}={int(value) if isinstance(value, bool) else value}"
        for name, value in sorted(macros.items())
    )


def spell_out(compiler: machine.Compiler, flags: Sequence[str]) -> tuple[str, ...]:
    """`flags` with `-march=native` and its kin replaced by what this compiler takes them for on this machine.

    An artifact made here is then named by the instructions it may use, not by a word that means another
    thing on the next machine. Raises BuildError when the compiler refuses the flag.
    """
    own = _GCC_FLAGS if compiler.kind == "gcc" else ()
    spelled: list[str] = list(own)
    for flag in flags:
        spelled.extend(
            _native(str(compiler.path), compiler.kind, compiler.version, flag) if flag in _NATIVE else [flag]
        )
    return tuple(spelled)


@functools.lru_cache(maxsize=64)
def _native(path: str, kind: str, version: str, flag: str) -> tuple[str, ...]:
    dry = ["-###", "-c"] if kind == "clang" else ["-E", "-v"]
    command = [path, flag, *dry, "-x", "c++", "/dev/null"]
    outcome = run(command, limits=Limits(wall_s=20.0), env=compiler_environment())
    words: list[str] = []
    for line in outcome.stderr.splitlines():
        if "cc1" in line and "/dev/null" in line:
            words = shlex.split(line)
    if outcome.end is not End.EXITED or outcome.returncode != 0 or not words:
        status = "build_timeout" if outcome.end is End.TIMED_OUT else "build_failed"
        raise BuildError(status, f"asking {path} what {flag} means", shlex.join(command), outcome.stderr)
    answer = _clang_answer(words) if kind == "clang" else _gcc_answer(words, flag)
    return tuple(answer)


def _gcc_answer(words: Sequence[str], flag: str) -> list[str]:
    """`-march=… -mavx2 … --param l2-cache-size=… -mtune=…`, from the arguments of cc1plus."""
    answer: list[str] = []
    for index, word in enumerate(words):
        if word == "--param":
            answer += [word, words[index + 1]]
        elif word.startswith("-m") and not (flag.startswith("-mtune") and not word.startswith("-mtune")):
            answer.append(word)
    return answer


def _clang_answer(words: Sequence[str]) -> list[str]:
    """The processor and features that the driver hands to the compiler proper, features in a fixed order."""
    answer: list[str] = []
    features: list[str] = []
    for word, following in itertools.pairwise(words):
        if word == "-target-cpu":
            answer.append(f"-march={following}")
        elif word == "-tune-cpu":
            answer.append(f"-mtune={following}")
        elif word == "-target-feature":
            features.append(following)
    for feature in sorted(features, key=lambda text: text[1:]):
        answer += ["-Xclang", "-target-feature", "-Xclang", feature]
    return answer


def compiler_environment() -> dict[str, str]:
    """The environment of compilers: messages in English; nothing that changes what they make."""
    steering = {
        "CCC_OVERRIDE_OPTIONS",
        "COMPILER_PATH",
        "CPATH",
        "CPLUS_INCLUDE_PATH",
        "C_INCLUDE_PATH",
        "DEPENDENCIES_OUTPUT",
        "GCC_EXEC_PREFIX",
        "LIBRARY_PATH",
        "NINJA_STATUS",
        "SUNPRO_DEPENDENCIES",
    }
    kept = {name: value for name, value in os.environ.items() if name not in steering}
    return {**kept, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
