"""What the Triton that is here can be told, and its ptxas."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import os
from pathlib import Path
from typing import Any

from kernelwright.errors import MissingExtraError
from kernelwright.errors import NoCompilerError
from kernelwright.process import Limits
from kernelwright.process import run
from kernelwright.space import Choice
from kernelwright.space import Flag
from kernelwright.space import Parameter
from kernelwright.space import Range

_LIMITS = Limits(wall_s=20.0)

#: What can be chosen of an option, by its name in CUDAOptions; those that this Triton lacks are left out.
_CHOSEN: dict[str, Parameter] = {
    "num_warps": Choice([1, 2, 4, 8, 16, 32], default=4, log=True),
    "num_stages": Range(1, 7, default=3),
    "num_ctas": Choice([1, 2, 4], default=1, log=True),
    "maxnreg": Choice([32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 168, 192, 208, 224, 240, 255]),
}
#: Options that change results.
_UNSAFE: dict[str, Parameter] = {
    "enable_fp_fusion": Flag(),
    "enable_reflect_ftz": Flag(),
}
#: Switches about debugging, about how a kernel is launched, or about what it means.
_OTHER = ("allow", "clc", "debug", "enable_assert", "fpsan", "instrument", "launch", "max_num", "sanitize")


def triton_version() -> str:
    """The version of the Triton that is here. Raises MissingExtraError."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtraError(
            "triton", "triton", "to compile Triton kernels and to ask for its options"
        ) from None


def launch_options(*, unsafe: bool, everything: bool) -> dict[str, Parameter]:
    """The options of a launch that change speed alone (with `unsafe`, results too), as CUDAOptions has them.

    `everything`: also the switches that this list does not know. Raises MissingExtraError.
    """
    fields = _fields()
    known = {**_CHOSEN, **(_UNSAFE if unsafe else {})}
    found = {name: one for name, one in known.items() if name in fields}
    if everything:
        found |= {
            name: Flag()
            for name, default in fields.items()
            if isinstance(default, bool)
            and name not in {**_CHOSEN, **_UNSAFE}
            and not name.startswith(_OTHER)
        }
    return found


def triton_ptxas(arch: int) -> Path:
    """The ptxas that Triton runs for this compute capability. Raises MissingExtraError, NoCompilerError."""
    triton_version()
    from triton.backends.nvidia.compiler import get_ptxas

    try:
        return Path(get_ptxas(arch).path)
    except RuntimeError as error:
        raise NoCompilerError(
            f"Triton finds no ptxas for sm_{arch} ({error}); set TRITON_PTXAS_PATH, or pip install "
            "'kernelwright[cuda-toolchain]'"
        ) from error


def takes_control_files(ptxas: Path) -> bool:
    """Whether this ptxas has `--apply-controls`. Raises NoCompilerError when it does not say."""
    return "--apply-controls" in ptxas_help(ptxas)


@functools.cache
def ptxas_help(ptxas: Path) -> str:
    """What `ptxas --help` says, and its version. Raises NoCompilerError."""
    texts = []
    for word in ("--version", "--help"):
        outcome = run([str(ptxas), word], limits=_LIMITS, env={**os.environ, "LC_ALL": "C"})
        if not outcome.ok:
            raise NoCompilerError(f"{ptxas} {word}: {outcome.describe()}; name a ptxas that runs here")
        texts.append(outcome.stdout)
    return "\n".join(texts)


def _fields() -> dict[str, Any]:
    triton_version()
    from triton.backends.nvidia.compiler import CUDAOptions

    return {field.name: field.default for field in dataclasses.fields(CUDAOptions)}
