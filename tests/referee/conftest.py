"""Planted rms_norm kernels, built and described as real ones are."""

from __future__ import annotations

import struct
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright import build
from kernelwright.errors import UnsupportedCallError
from kernelwright.ops import RmsNormSpec
from kernelwright.process import Template
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge

PLANTED = Path(__file__).with_name("planted")
INCLUDE = Path(build.__file__).parents[1] / "kernels" / "cpu" / "include"
_CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}


@dataclass(frozen=True)
class Buffer:
    name: str
    nbytes: int
    output: bool


@dataclass(frozen=True)
class Call:
    block: bytes
    buffers: tuple[Buffer, ...]


def describe_rms_norm(arguments: Mapping[str, Any], out: torch.Tensor) -> Call:
    """The call block and buffers of rms_norm, from the declarations of kw/abi.h."""
    named = [("x", arguments["x"]), ("weight", arguments["weight"]), ("out", out)]
    for name, tensor in named:
        if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise UnsupportedCallError("rms_norm", [("planted", f"{name} has no dense last dimension")])
    block = struct.pack("4i4d", 1, len(named), 0, 0, arguments["eps"], 0.0, 0.0, 0.0)
    buffers = []
    for name, tensor in named:
        sizes = [*tensor.shape, *[0] * (4 - tensor.ndim)]
        strides = [*tensor.stride(), *[0] * (4 - tensor.ndim)]
        block += struct.pack("8q2i", *sizes, *strides, tensor.ndim, _CODES[tensor.dtype])
        span = 0
        if tensor.numel():
            span = 1 + sum(
                (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
            )
        buffers.append(Buffer(name, span * tensor.element_size(), name == "out"))
    return Call(block.ljust(480, b"\0"), tuple(buffers))


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    """A process that has imported torch, of which those of all judges are forks."""
    with Template(["torch"]) as one:
        yield one


@pytest.fixture(scope="session")
def spec() -> RmsNormSpec:
    return RmsNormSpec()


@pytest.fixture(scope="session")
def describe() -> Callable[..., Call]:
    return describe_rms_norm


@pytest.fixture(scope="session")
def planted() -> Callable[[str], NativeEntrant]:
    """Builds tests/referee/planted/<name>.cpp; raises BuildError as any build does."""

    def entrant(name: str) -> NativeEntrant:
        section = build.KernelSection(
            name=name,
            backend="cpu",
            depends=(),
            src=(f"{name}.cpp",),
            include=(str(INCLUDE),),
            cxx_flags=("-mf16c",),
        )
        artifact = build.build(build.BuildRequest(section, PLANTED, {}))
        return NativeEntrant(name, artifact.library, "kw_rms_norm")

    return entrant


@pytest.fixture(scope="module")
def judge() -> Iterator[NativeJudge]:
    with NativeJudge(seed=1) as judge:
        yield judge
