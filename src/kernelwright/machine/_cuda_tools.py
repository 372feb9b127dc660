"""The CUDA toolchain: which ptxas, nvcc and their kin are here, and in which version."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelwright import settings
from kernelwright.errors import NoCompilerError
from kernelwright.errors import UnknownNameError
from kernelwright.process import Limits
from kernelwright.process import run

CUDA_TOOLS = ("ptxas", "nvcc", "nvlink", "tileiras", "cuobjdump", "nvdisasm")
"""The programs that are looked for."""
HOW_TO_INSTALL_CUDA = (
    "pip install 'kernelwright[cuda-toolchain]', or set KERNELWRIGHT_CUDA to the folder of a CUDA toolkit"
)
"""What a person does who has none of them."""
_LIMITS = Limits(wall_s=30.0)
_USUAL = Path("/usr/local/cuda")


@dataclass(frozen=True)
class CudaTool:
    """A program of the CUDA toolkit. `version` is as `13.5.37`; `source` says how it was found."""

    name: str
    path: Path
    version: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, to compare."""
        return tuple(int(part) for part in self.version.split("."))

    def beside(self, name: str) -> Path | None:
        """The tool called `name` of the same toolkit; None where there is none."""
        for folder in (self.path.parent, self.path.resolve().parent):
            if os.access(folder / name, os.X_OK):
                return folder / name
        return None


def find_cuda_tool(name: str, asked: Path | str | None = None) -> CudaTool:
    """The tool to use: the one asked for, else that of KERNELWRIGHT_CUDA, else the newest one here.

    Looked through are the CUDA wheels of this interpreter, CUDA_HOME, PATH, /usr/local/cuda and Triton's
    own; of two alike the first. Raises NoCompilerError with what to install, UnknownNameError for a tool that
    is none of CUDA_TOOLS.
    """
    if name not in CUDA_TOOLS:
        raise UnknownNameError("CUDA tool", name, CUDA_TOOLS)
    if asked is not None:
        path = shutil.which(str(asked))
        if path is None:
            raise NoCompilerError(
                f"there is no program {str(asked)!r}; name the path of {name}, or leave it out"
            )
        return _inspected(name, Path(path), "as asked")
    chosen = settings.cuda()
    if chosen is not None:
        for folder in (chosen / "bin", chosen):
            if os.access(folder / name, os.X_OK):
                return _inspected(name, folder / name, "KERNELWRIGHT_CUDA")
        raise NoCompilerError(f"KERNELWRIGHT_CUDA is {str(chosen)!r}, and there is no {name} in it")
    found = find_cuda_tools(name)
    if not found:
        raise NoCompilerError(f"no {name} was found: {HOW_TO_INSTALL_CUDA}")
    return max(found, key=lambda tool: tool.release)


def find_cuda_tools(name: str) -> tuple[CudaTool, ...]:
    """Every tool of this name that could be used, in the order in which they are looked for."""
    found: dict[Path, CudaTool] = {}
    for path, source in _places(name):
        tool = _inspect(name, path, source, _stamp(path))
        if tool is not None:
            found.setdefault(path.resolve(), tool)
    return tuple(found.values())


def cuda_help(tool: CudaTool) -> str:
    """What the tool's `--help` says. Raises NoCompilerError where it says nothing."""
    return _help(tool.path, _stamp(tool.path))


@functools.cache
def _help(path: Path, stamp: str) -> str:
    with tempfile.TemporaryDirectory(prefix="kernelwright-help-") as folder:
        # Into a file: of what a program prints only the end is kept.
        said = Path(folder, "help")
        outcome = run(["/bin/sh", "-c", '"$0" --help >"$1"', str(path), str(said)], limits=_LIMITS)
        text = said.read_text(errors="replace") if said.exists() else ""
    if not outcome.ok or "--" not in text:
        raise NoCompilerError(f"{path} does not say what its options are (--help: {outcome.describe()})")
    return text


def _places(name: str) -> Iterator[tuple[Path, str]]:
    """Where a tool may be, the best place first."""
    for folder, source in _folders():
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            yield folder / name, source


def _folders() -> Iterator[tuple[Path, str]]:
    for root in _packages("nvidia"):
        for folder in sorted(root.glob("cu[0-9]*/bin"), reverse=True):
            yield folder, "wheels"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin", variable
    for word in os.environ.get("PATH", "").split(os.pathsep):
        if word:
            yield Path(word), "PATH"
    yield _USUAL / "bin", str(_USUAL)
    for root in _packages("triton"):
        yield root / "backends" / "nvidia" / "bin", "Triton's own"


def _packages(name: str) -> list[Path]:
    """Where a package of this interpreter lies, without importing it."""
    spec = importlib.util.find_spec(name)
    return [] if spec is None else [Path(root) for root in spec.submodule_search_locations or ()]


def _inspected(name: str, path: Path, source: str) -> CudaTool:
    tool = _inspect(name, path, source, _stamp(path))
    if tool is None:
        raise NoCompilerError(f"{path} is no {name}: it does not say its version; {HOW_TO_INSTALL_CUDA}")
    return tool


@functools.cache
def _inspect(name: str, path: Path, source: str, stamp: str) -> CudaTool | None:
    try:
        outcome = run([str(path), "--version"], limits=_LIMITS)
    except OSError:
        return None
    said = re.search(r"\bV(\d+\.\d+\.\d+)", outcome.stdout) if outcome.ok else None
    return CudaTool(name, path, said[1], source) if said else None


def _stamp(path: Path) -> str:
    """What changes when the program does, so that answers are kept no longer."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
