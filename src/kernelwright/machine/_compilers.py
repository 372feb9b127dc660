"""C++ compilers: which are here, and which one is used."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernelwright import files
from kernelwright import settings
from kernelwright.errors import FileFormatError
from kernelwright.errors import NoCompilerError
from kernelwright.process import Limits
from kernelwright.process import run

_CANDIDATES = ("g++", "clang++")
_LIMITS = Limits(wall_s=20.0)
_SCHEMA = "kernelwright.compilers"
_VERSION = 1
_FIELDS = {"stamp", "kind", "version", "target"}
_log = logging.getLogger("kernelwright.machine")
HOW_TO_INSTALL = (
    "install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; without root: "
    "conda install -c conda-forge gxx), or set CXX to the path of one"
)
"""What a person does who has no compiler."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler. `kind` is `gcc` or `clang`; `target` is the machine it compiles for."""

    path: Path
    kind: str
    version: str
    target: str

    def __str__(self) -> str:
        return f"{self.path.name} {self.version} ({self.target})"


def find_compiler() -> Compiler:
    """The C++ compiler to use: the one that CXX names, else g++, else clang++.

    Raises NoCompilerError with what to install when there is none, or when the one that CXX names is not one.
    """
    asked = settings.compiler()
    if asked is not None:
        path = shutil.which(asked)
        if path is None:
            raise NoCompilerError(
                f"CXX is {asked!r}, and no such program was found; unset it, or name one, without flags"
            )
        found = _inspect(path)
        if found is None:
            raise NoCompilerError(
                f"CXX is {asked!r} ({path}), which is neither GCC nor Clang or does not run"
            )
        return found
    for name in _CANDIDATES:
        path = shutil.which(name)
        found = _inspect(path) if path is not None else None
        if found is not None:
            return found
    raise NoCompilerError(
        f"no C++ compiler was found (looked for {', '.join(_CANDIDATES)}): {HOW_TO_INSTALL}"
    )


def find_compilers() -> tuple[Compiler, ...]:
    """Every C++ compiler here that could be used, the one that CXX names first."""
    paths = [path for name in (settings.compiler(), *_CANDIDATES) if name and (path := shutil.which(name))]
    return tuple(found for path in dict.fromkeys(paths) if (found := _inspect(path)) is not None)


def compiler_at(path: Path | str) -> Compiler | None:
    """The C++ compiler that is this program, or that the PATH has by this name; None where it is none."""
    found = shutil.which(str(path))
    return None if found is None else _inspect(found)


@functools.cache
def _inspect(path: str) -> Compiler | None:
    """What the compiler at `path` says of itself; None when it is none that we know.

    To ask takes longer than to load a kernel, so answers are kept for as long as the program's file stays as
    it was. A script or a front such as ccache is asked each time: what it runs may change behind it.
    """
    stamp = _stamp(path)
    known = _remembered().get(path) if stamp is not None else None
    if known is not None and known.get("stamp") == stamp:
        return Compiler(Path(path), known["kind"], known["version"], known["target"])
    found = _ask(path)
    if found is not None and stamp is not None:
        entry = {"stamp": stamp, "kind": found.kind, "version": found.version, "target": found.target}
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            files.write_json(_memory(), _SCHEMA, _VERSION, {"compilers": {**_remembered(), path: entry}})
    return found


def _stamp(path: str) -> str | None:
    """What changes when the compiler's program does; None for a program that only leads to a compiler."""
    real = Path(path).resolve()
    if re.search(r"(g\+\+|gcc|clang)", real.name) is None:
        return None
    try:
        with real.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                return None
            status = os.fstat(stream.fileno())
    except OSError:
        return None
    return f"{real} {status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _memory() -> Path:
    return settings.cache_dir() / "machine" / "compilers.json"


def _remembered() -> dict[str, dict[str, str]]:
    """The answers that were kept, by path; none from a file that cannot be read, which is set aside."""
    try:
        kept = files.read_json(_memory(), _SCHEMA, _VERSION).get("compilers")
    except OSError:
        return {}
    except FileFormatError as error:
        with contextlib.suppress(OSError):
            _log.warning(
                "what compilers said cannot be read (%s); kept as %s", error, files.set_aside(error.path)
            )
        return {}
    if not isinstance(kept, dict):
        return {}
    return {
        path: entry for path, entry in kept.items() if isinstance(entry, dict) and entry.keys() >= _FIELDS
    }


def _ask(path: str) -> Compiler | None:
    try:
        told = run([path, "--version"], limits=_LIMITS)
        machine = run([path, "-dumpmachine"], limits=_LIMITS)
    except OSError:
        return None
    if not told.ok or not machine.ok:
        return None
    text = told.stdout
    if "clang" in text.lower():
        kind = "clang"
    elif "Free Software Foundation" in text:
        kind = "gcc"
    else:
        return None
    # The last number of the first line is GCC's own version; before it stands the distribution's.
    numbers = re.findall(r"\d+\.\d+(?:\.\d+)?", text.splitlines()[0])
    if not numbers:
        return None
    return Compiler(Path(path), kind, numbers[0] if kind == "clang" else numbers[-1], machine.stdout.strip())
