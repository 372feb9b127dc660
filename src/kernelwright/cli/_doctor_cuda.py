"""What the doctor says of compilers for GPUs: which are here, in which version, and what each lacks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

from kernelwright import machine
from kernelwright.cli._diagnosis import Check
from kernelwright.errors import KernelwrightError
from kernelwright.machine import CudaTool

_APPLY = "--apply-controls"
_NEWER = "13.3 or newer has: pip install 'kernelwright[cuda-toolchain]'"
#: Packages of FlashInfer with kernels compiled before, which controls cannot reach.
_PREBUILT = ("flashinfer-cubin", "flashinfer-jit-cache")

VersionOf = Callable[[str], str]


def gpu_compilers(version_of: VersionOf = importlib.metadata.version) -> list[Check]:
    """Every compiler for GPUs that controls can be brought to; none is needed to tune CPU kernels."""
    return [
        _tool("ptxas", _ptxas_lacks),
        _tool("nvcc", _nvcc_lacks),
        _tool("tileiras", _tileiras_lacks),
        _package("Triton", "triton", version_of, _triton_lacks),
        _package("cuTile", "cuda-tile", version_of, _cutile_lacks),
        _package("Helion", "helion", version_of, _helion_lacks),
        _package("CuTe DSL", "nvidia-cutlass-dsl", version_of),
        _package("FlashInfer", "flashinfer-python", version_of, lambda: _flashinfer_lacks(version_of)),
    ]


def _tool(name: str, lacks: Callable[[CudaTool], Iterator[str]]) -> Check:
    try:
        found = machine.find_cuda_tool(name)
        wanting = list(lacks(found))
    except KernelwrightError as error:
        return Check(name, False, "none that can be used", str(error), required=False)
    others = [one for one in machine.find_cuda_tools(name) if one.path.resolve() != found.path.resolve()]
    also = "".join(f"; also {one.version} ({one.path})" for one in dict.fromkeys(others))
    text = f"{found.version} ({found.path}, {found.source}){also}"
    return _with_what_is_lacking(name, text, wanting)


def _package(
    name: str, distribution: str, version_of: VersionOf, lacks: Callable[[], Iterator[str]] | None = None
) -> Check:
    try:
        version = version_of(distribution)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, "not installed", f"pip install {distribution}", required=False)
    return _with_what_is_lacking(name, version, [] if lacks is None else list(lacks()))


def _with_what_is_lacking(name: str, found: str, wanting: list[str]) -> Check:
    if not wanting:
        return Check(name, True, found, required=False)
    return Check(name, True, f"{found}; {'; '.join(wanting)}", required=False)


def _ptxas_lacks(tool: CudaTool) -> Iterator[str]:
    if _APPLY not in machine.cuda_help(tool):
        yield f"ptxas {tool.version} has no {_APPLY}, {_NEWER}"


def _nvcc_lacks(tool: CudaTool) -> Iterator[str]:
    ptxas = tool.beside("ptxas")
    if ptxas is None:
        yield "it lacks ptxas beside it: pip install 'kernelwright[cuda-toolchain]'"
    elif _APPLY not in machine.cuda_help(machine.find_cuda_tool("ptxas", ptxas)):
        yield f"its ptxas has no {_APPLY}, {_NEWER}"
    if shutil.which("gcc") is None and shutil.which("clang") is None:
        yield f"it needs a host compiler: {machine.HOW_TO_INSTALL}"
    root = tool.path.resolve().parent.parent
    if tool.beside("nvlink") is None or not _has(root, "**/libnvvm.so*"):
        yield "it cannot optimise device code as it links (-dlto): it lacks nvlink or libnvvm"


def _tileiras_lacks(tool: CudaTool) -> Iterator[str]:
    root = tool.path.resolve().parent.parent
    parts = {"ptxas": "bin/ptxas", "libnvvm": "**/libnvvm.so*", "libdevice": "**/libdevice*.bc"}
    missing = [name for name, pattern in parts.items() if not _has(root, pattern)]
    if missing:
        yield f"it needs {', '.join(missing)} in {root}: pip install 'kernelwright[cuda-toolchain]'"
    if _APPLY not in machine.cuda_help(tool):
        yield f"tileiras {tool.version} has no {_APPLY}, {_NEWER}"


def _triton_lacks() -> Iterator[str]:
    folder = _folder("triton")
    compiler = folder / "backends" / "nvidia" / "compiler.py" if folder is not None else None
    if compiler is not None and compiler.is_file() and "ptx_options" not in compiler.read_text():
        yield "it takes no ptx_options, through which controls reach ptxas: 3.6 or newer does"
    chosen = os.environ.get("TRITON_PTXAS_PATH")
    path = chosen or (str(folder / "backends" / "nvidia" / "bin" / "ptxas") if folder is not None else None)
    try:
        tool = machine.find_cuda_tool("ptxas", path) if path else None
    except KernelwrightError as error:
        yield f"its ptxas cannot be used ({error}); set TRITON_PTXAS_PATH to one"
        return
    if tool is None:
        yield "it has no ptxas; set TRITON_PTXAS_PATH to one"
        return
    how = "by TRITON_PTXAS_PATH" if chosen else "its own"
    yield f"ptxas {tool.version}, {how}"
    if _APPLY not in machine.cuda_help(tool):
        newest = machine.find_cuda_tool("ptxas")
        has = _APPLY in machine.cuda_help(newest)
        yield f"that has no {_APPLY}: " + (f"set TRITON_PTXAS_PATH={newest.path}" if has else _NEWER)


def _cutile_lacks() -> Iterator[str]:
    if not machine.find_cuda_tools("tileiras"):
        yield "it needs tileiras: pip install 'kernelwright[cuda-toolchain]'"


def _helion_lacks() -> Iterator[str]:
    if _folder("triton") is None:
        yield "it needs Triton: pip install triton"
    if not machine.current().gpus:
        yield "it needs a GPU to run, and none is shown here"


def _flashinfer_lacks(version_of: VersionOf) -> Iterator[str]:
    for distribution in _PREBUILT:
        try:
            version = version_of(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield (
            f"{distribution} {version} has kernels compiled before, which controls cannot reach: "
            f"pip uninstall {distribution}"
        )
    if not machine.find_cuda_tools("nvcc"):
        yield f"it needs nvcc to compile: {machine.HOW_TO_INSTALL_CUDA}"


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _has(root: Path, pattern: str) -> bool:
    return next(iter(root.glob(pattern)), None) is not None
