"""What the Triton that is here can be told at a launch, and which ptxas it runs."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.controls._provider import Variant
from kernelwright.controls._provider import VARIANTS
from kernelwright.errors import MissingExtraError
from kernelwright.errors import NoCompilerError
from kernelwright.space import Choice
from kernelwright.space import Flag
from kernelwright.space import Parameter
from kernelwright.space import Range

#: What can be chosen of an option, by its name in CUDAOptions, and the variants that it is in; what this
#: Triton lacks is left out.
_CHOSEN: dict[str, tuple[Sequence[str], Parameter]] = {
    "num_warps": (VARIANTS, Choice([1, 2, 4, 8, 16, 32], default=4, log=True)),
    "num_stages": (("default", "attention", "wide"), Range(1, 7, default=3)),
    "num_ctas": (("attention", "wide"), Choice([1, 2, 4], default=1, log=True)),
    "maxnreg": (VARIANTS, Range(32, 248, 8, default=128)),
}
#: Options that change results.
_UNSAFE = ("enable_fp_fusion", "enable_reflect_ftz")
#: Switches about debugging, about how a kernel is launched, or about what it means.
_OTHER = ("allow", "clc", "debug", "enable_assert", "fpsan", "instrument", "launch", "max_num", "sanitize")


def triton_version() -> str:
    """The version of the Triton that is here. Raises MissingExtraError."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        purpose = "to compile Triton kernels and to ask for its options"
        raise MissingExtraError("triton", "triton", purpose) from None


def launch_options(variant: Variant, *, unsafe: bool, clusters: bool) -> dict[str, Parameter]:
    """The options of a launch that change speed alone (with `unsafe`, results too), as CUDAOptions has them.

    `wide` has the switches too that this list does not know. `clusters`: whether the GPU has clusters of
    blocks. Raises MissingExtraError.
    """
    fields = _fields()
    found = {
        name: one
        for name, (variants, one) in _CHOSEN.items()
        if name in fields and variant in variants and (clusters or name != "num_ctas")
    }
    if unsafe:
        found |= {name: Flag() for name in _UNSAFE if name in fields}
    if variant == "wide":
        found |= {
            name: Flag()
            for name, default in fields.items()
            if isinstance(default, bool) and name not in _UNSAFE and not name.startswith(_OTHER)
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


def _fields() -> dict[str, Any]:
    triton_version()
    from triton.backends.nvidia.compiler import CUDAOptions

    return {field.name: field.default for field in dataclasses.fields(CUDAOptions)}
