"""What the doctor looks at: whether the main job can run here, what is missing, and how to get it."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright import machine
from kernelwright import settings
from kernelwright.errors import KernelwrightError
from kernelwright.process import Limits
from kernelwright.process import run

_OPENMP = '#include <omp.h>\nextern "C" int threads() { return omp_get_max_threads(); }\n'


@dataclass(frozen=True)
class Check:
    """One thing that was looked for. `found` says what it is, `remedy` what to do when it is not right.

    Without a `required` thing the main job, tuning an operator on this processor, cannot run.
    """

    name: str
    ok: bool
    found: str
    remedy: str | None = None
    required: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "name": self.name,
            "ok": self.ok,
            "found": self.found,
            "remedy": self.remedy,
            "required": self.required,
        }


@dataclass(frozen=True)
class Extra:
    """An optional part of the installation: its distributions, with the version found (None: missing)."""

    name: str
    distributions: tuple[tuple[str, str | None], ...]

    @property
    def installed(self) -> bool:
        """Whether all of it is here."""
        return all(version is not None for _, version in self.distributions)

    @property
    def command(self) -> str:
        """How to get it."""
        return f"pip install 'kernelwright[{self.name}]'"


def checks() -> list[Check]:
    """Look for everything that the main job needs, then for what its neighbours need."""
    return [
        compiler(),
        openmp(),
        ninja(),
        torch(),
        writable("cache folder", settings.cache_dir(), "KERNELWRIGHT_CACHE"),
        writable("data folder", settings.data_dir(), "KERNELWRIGHT_DATA"),
        python_headers(),
        gpus(),
    ]


def compiler() -> Check:
    """A C++ compiler that can be used."""
    try:
        return Check("C++ compiler", True, str(machine.find_compiler()))
    except KernelwrightError as error:
        return Check("C++ compiler", False, "none that can be used", str(error))


def openmp() -> Check:
    """Whether that compiler makes a library that uses OpenMP."""
    try:
        chosen = machine.find_compiler()
    except KernelwrightError:
        return Check("OpenMP", False, "not known without a compiler", "install a compiler first")
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        argv = [str(chosen.path), "-x", "c++", "-fopenmp", "-fPIC", "-shared", "-o", f"{folder}/omp.so", "-"]
        outcome = run(argv, limits=Limits(wall_s=30.0), input=_OPENMP, cwd=folder)
    if outcome.ok:
        return Check("OpenMP", True, f"{chosen.path.name} compiles and links it")
    said = next((line for line in outcome.stderr.splitlines() if "error" in line), outcome.describe())
    hint = "apt install libomp-dev, or use g++" if chosen.kind == "clang" else "reinstall the compiler"
    return Check("OpenMP", False, f"{chosen.path.name} does not compile it", f"{said}; {hint}")


def ninja() -> Check:
    """The program that runs the compilers."""
    return _distribution("ninja", "ninja", "pip install ninja")


def torch() -> Check:
    """PyTorch, really imported."""
    return _distribution("torch", "torch", "pip install torch (https://pytorch.org says which build)")


def _distribution(name: str, module: str, remedy: str) -> Check:
    try:
        found = importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a shared library of it does not load
        return Check(name, False, f"cannot be imported ({error})", remedy)
    return Check(name, True, str(getattr(found, "__version__", "version unknown")))


def writable(name: str, folder: Path, variable: str) -> Check:
    """A folder of ours, or the nearest one above it that is there, can be written to."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Check(name, True, str(folder))
    return Check(name, False, f"{folder} cannot be written", f"set {variable} to a folder that can")


def python_headers() -> Check:
    """Python.h, without which torch.compile makes no CPU code."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if header.is_file():
        return Check("Python.h", True, str(header.parent), required=False)
    version = ".".join(platform.python_version_tuple()[:2])
    remedy = f"for bench --against compile: apt install python{version}-dev"
    return Check("Python.h", False, "not there; torch.compile is no peer here", remedy, required=False)


def gpus() -> Check:
    """Graphics processors; none of today's kernels need one."""
    found = machine.current().gpus
    if found:
        text = "; ".join(f"{gpu.name} (driver {gpu.driver}, capability {gpu.capability})" for gpu in found)
        return Check("GPU", True, text, required=False)
    return Check("GPU", False, "none shown by nvidia-smi", "not needed to tune CPU kernels", required=False)


def extras(
    requires: list[str] | None = None, version_of: Callable[[str], str] = importlib.metadata.version
) -> list[Extra]:
    """Every optional part that the package declares, and whether it is here."""
    if requires is None:
        try:
            requires = importlib.metadata.requires("kernelwright") or []
        except importlib.metadata.PackageNotFoundError:  # run from the source tree
            return []
    members: dict[str, list[str]] = {}
    for line in requires:
        marker = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", line)
        if marker:
            members.setdefault(marker.group(1), []).append(line.split(";")[0].strip())
    return [
        Extra(name, tuple((one, _version(one, version_of)) for one in _expand(name, members, set())))
        for name in members
    ]


def _expand(name: str, members: dict[str, list[str]], seen: set[str]) -> list[str]:
    """The distributions of an extra; one that names other extras of ours has theirs."""
    seen.add(name)
    found: list[str] = []
    for requirement in members.get(name, []):
        own = re.match(r"kernelwright\s*\[([^\]]*)\]", requirement)
        if own:
            for other in (part.strip() for part in own.group(1).split(",")):
                if other not in seen:
                    found += _expand(other, members, seen)
        else:
            found.append(re.split(r"[\s\[<>=!~(]", requirement)[0])
    return list(dict.fromkeys(found))


def _version(distribution: str, version_of: Callable[[str], str]) -> str | None:
    try:
        return version_of(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
