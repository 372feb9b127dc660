"""A small kernel in a folder of its own, and an empty store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright import machine
from kernelwright.build import BuildFile
from kernelwright.build import BuildRequest
from kernelwright.build import read_build_file

SOURCE = """\
#include "scale.h"
#include "kw/abi.h"
#ifndef KW_FACTOR
#define KW_FACTOR 2
#endif
namespace { double helper(double value) { return value * KW_FACTOR + SHIFT; } }
double not_exported(double value) { return helper(value); }
KW_EXPORT double scale(double value) { return not_exported(value); }
"""

BUILD_TOML = """\
[general]
name = "scale"
version = 1
edition = 5
backends = ["cpu"]

[kernel.scale_generic]
backend = "cpu"
depends = []
src = ["scale.cpp"]
include = ["include"]

[kernel.scale_avx2]
backend = "cpu"
depends = []
src = ["scale.cpp"]
include = ["include"]
cxx-flags = ["-mavx2", "-mfma"]
"""


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store of artifacts."""
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "artifacts"


@pytest.fixture(scope="session")
def compiler() -> machine.Compiler:
    """The compiler of this machine; the project needs one to be tested."""
    return machine.find_compiler()


def write_kernel(folder: Path, source: str = SOURCE, build_toml: str = BUILD_TOML) -> BuildFile:
    """A kernel named `scale` in `folder`."""
    (folder / "include" / "kw").mkdir(parents=True, exist_ok=True)
    (folder / "build.toml").write_text(build_toml)
    (folder / "scale.cpp").write_text(source)
    (folder / "include" / "scale.h").write_text("#define SHIFT 1\n")
    (folder / "include" / "kw" / "abi.h").write_text(
        '#define KW_EXPORT extern "C" __attribute__((visibility("default")))\n'
    )
    return read_build_file(folder)


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[..., BuildRequest]:
    """Make a request: `kernel(source=..., tier=..., folder=..., **fields of BuildRequest)`."""

    def make(
        source: str = SOURCE, tier: str = "generic", folder: str = "scale", **fields: object
    ) -> BuildRequest:
        file = write_kernel(tmp_path / folder, source)
        return BuildRequest(file.kernels[f"scale_{tier}"], file.root, **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def kernel_folder(tmp_path: Path) -> Callable[..., BuildFile]:
    """Write a kernel folder: `kernel_folder(build_toml=..., source=...)`."""

    def make(build_toml: str = BUILD_TOML, source: str = SOURCE, folder: str = "scale") -> BuildFile:
        return write_kernel(tmp_path / folder, source, build_toml)

    return make
