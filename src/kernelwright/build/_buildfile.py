"""build.toml: which sources make which kernel, with which flags (edition 5 of kernel-builder's schema)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from kernelwright import machine

FILE_NAME = "build.toml"


@dataclass(frozen=True)
class KernelSection:
    """One `[kernel.NAME]`: sources that become one library, with their flags. Paths are as written."""

    name: str
    backend: str
    depends: tuple[str, ...] = ()
    src: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    #: Keys of other backends (`cuda-flags`, `cuda-capabilities`, …), kept as written.
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildFile:
    """A build.toml that was read and found sound."""

    path: Path
    name: str
    version: str | None
    backends: tuple[str, ...]
    kernels: Mapping[str, KernelSection]
    #: Which of `torch`, `torch-noarch`, `tvm-ffi` is there, and its table as written.
    framework: str | None = None
    framework_options: Mapping[str, Any] = field(default_factory=dict)
    #: The rest of `[general]`, as written.
    general: Mapping[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder that the paths in the file are relative to."""
        return self.path.parent

    def tiers(self, kernel: str) -> dict[str, KernelSection]:
        """The sections of one kernel by ISA tier, low to high.

        `[kernel.rms_norm_avx512]` is tier `avx512` of `rms_norm`; a section named as the kernel alone is
        its `generic` tier where no section says so. Empty when no section is of this kernel.
        """
        found: dict[str, KernelSection] = {}
        for tier in (tier.name for tier in machine.TIERS):
            names = [f"{kernel}_{tier}", f"{kernel}-{tier}", f"{kernel}-{tier.replace('_', '-')}"]
            if tier == "generic":
                names.append(kernel)
            for name in names:
                if name in self.kernels:
                    found[tier] = self.kernels[name]
                    break
        return found


def read_build_file(path: Path) -> BuildFile:
    """Read and check a build.toml, or the one in the folder `path`.

    Raises FileFormatError that names the line and section of what is wrong (an unknown key with the nearest
    known one, a missing source or include folder, a value of the wrong type); FileNotFoundError when there
    is no such file.
    """
    from kernelwright.build._schema import read  # which loads pydantic: a tenth of a second

    return read(path / FILE_NAME if path.is_dir() else path)
