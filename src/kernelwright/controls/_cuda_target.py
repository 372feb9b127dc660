"""PTX and CUDA sources as targets: compiled under controls anywhere, measured where there is a GPU."""

from __future__ import annotations

import hashlib
import json
import shutil
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import ClassVar

from kernelwright import files
from kernelwright import machine
from kernelwright import settings
from kernelwright.controls._cubin import Cubin
from kernelwright.controls._cuda_compile import compile_cuda
from kernelwright.controls._cuda_compile import compile_ptx
from kernelwright.controls._cuda_compile import Compiled
from kernelwright.controls._cuda_compile import LIMITS
from kernelwright.controls._cuda_launch import Bench
from kernelwright.controls._cuda_launch import KernelRun
from kernelwright.controls._cuda_spaces import NvccSearchSpace
from kernelwright.controls._cuda_spaces import PtxasSearchSpace
from kernelwright.controls._described import register_target
from kernelwright.controls._gpu_measured import MeasuredOnGpu
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._resources import resources_of
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.controls._target import Target
from kernelwright.controls._vendor_files import VendorFiles
from kernelwright.errors import UsageError
from kernelwright.machine import CudaTool
from kernelwright.process import Limits
from kernelwright.space import Configuration
from kernelwright.space import Space

_ARCHITECTURE = "sm_90"


class _CubinTarget(MeasuredOnGpu):
    """What targets that one compiler turns into cubins have in common."""

    _kind: ClassVar[str]
    #: The compiler, what it compiles, and the default space of its options.
    _compiler: ClassVar[str]
    _sources: ClassVar[str]
    _space: ClassVar[type[PtxasSearchSpace] | type[NvccSearchSpace]]
    #: What can be chosen besides; PTX has nothing to choose.
    parameters: Space | None = None

    def __init__(
        self,
        source: Path | str,
        entry: str,
        provider: CompilerSearchSpace | VendorFiles | None = None,
        *,
        architecture: str | None = None,
        run: KernelRun | None = None,
        folder: Path | None = None,
        build_limits: Limits = LIMITS,
    ) -> None:
        super().__init__(run)
        provider = provider if provider is not None else self._space()
        if provider.tool != self._compiler:
            raise UsageError(f"{self._sources} compiled by {self._compiler}, not by {provider.tool}")
        self.source = Path(source).absolute()
        if not self.source.is_file():
            raise UsageError(f"there is no file {self.source}; name the source of a kernel")
        self.entry = entry
        self.provider: Any = provider
        self.architecture = str(architecture or getattr(provider, "architecture", _ARCHITECTURE))
        self._folder = folder
        self.build_limits = build_limits

    @property
    def folder(self) -> Path:
        """Where cubins are kept."""
        return self._folder or settings.cache_dir() / "controls" / self.source.stem

    @property
    def name(self) -> str:
        """Kernel, architecture and compiler."""
        return f"{self.entry} {self.architecture} ({self.provider.tool})"

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads; what is Python, as `run`, is said to be there and not kept."""
        return {
            "kind": self._kind,
            "target": str(self.source),
            "entry": self.entry,
            "architecture": self.architecture,
            "parameters": self.parameters is not None,
            "run": self.run is not None,
            "provider": {"compiler": str(self._tool().path), **self.provider.pin()},
        }

    # -- building ------------------------------------------------------------------------------------------

    def build(self, config: Config) -> Artifact:
        """Compile afresh, and keep the cubin under its code key. Raises BuildFailure, ControlsError."""
        chosen, controls = split_config(config, mixed=self.parameters is not None)
        parameters = {**(self.parameters.default if self.parameters is not None else {}), **chosen}
        if self.parameters is not None:
            self.parameters.validate(parameters)
        made = self._compiled(parameters, controls or {})
        try:
            read = Cubin(made.path)
            if self.entry not in read.kernels:
                known = ", ".join(read.kernels) or "none"
                raise BuildFailure(
                    "build_failed",
                    f"{self.source.name} has no kernel {self.entry!r}; it has: {known}",
                    made.log,
                )
            key = read.key()
            _, block, shared = self._sizes(parameters)
            found = resources_of(read, self.entry, threads=block, dynamic_shared=shared)
            path = self._kept(made.path, key, parameters)
        finally:
            shutil.rmtree(made.path.parent, ignore_errors=True)
        return Artifact(path, key, made.log, found.features(), made.seconds)

    @abstractmethod
    def _compiled(self, parameters: Configuration, controls: str | Mapping[str, Any]) -> Compiled:
        """The cubin under these parameters of the kernel and these controls, in a folder of its own."""

    def _tool(self) -> CudaTool:
        return machine.find_cuda_tool(self.provider.tool, getattr(self.provider, "compiler", None))

    def _sizes(self, parameters: Configuration) -> tuple[object, int | None, int]:
        if self.run is None:
            return None, None, 0
        grid, block, shared = self.run.sizes(parameters)
        threads = 1
        for size in block:
            threads *= size
        return grid, threads, shared

    def _kept(self, path: Path, key: str, parameters: Configuration) -> Path:
        """The cubin by its code key, with the parameters beside it; what is there already stays."""
        notes = json.dumps({"parameters": parameters, "entry": self.entry}, sort_keys=True)
        kept = self.folder / f"{key}-{hashlib.sha256(notes.encode()).hexdigest()[:8]}.cubin"
        if not kept.is_file():
            files.write_atomic(kept.with_suffix(".json"), notes)
            files.write_atomic(kept, path.read_bytes())
        return kept

    # -- measuring -----------------------------------------------------------------------------------------

    def make_bench(self, run: KernelRun) -> Bench:
        """What checks and times cubins of this architecture."""
        return Bench(run, self.architecture)

    def entry_of(self, artifact: Artifact) -> tuple[Path, str, Configuration]:
        """A cubin, its kernel, and the parameters that it was built with."""
        return artifact.path, self.entry, _noted(artifact.path)


class PtxTarget(_CubinTarget):
    """A kernel in PTX, compiled by ptxas under controls.

    Building needs no GPU. Each build compiles afresh, and the cubin is kept under its code key, so that no
    configuration's binary stands in for another's.

    Args:
        source: a file of PTX.
        entry: the name of the kernel.
        provider: a PtxasSearchSpace, or VendorFiles for ptxas; the default space when None.
        architecture: what is compiled for; the provider's, or `sm_90`, when None.
        run: how it is launched and what is right; without it nothing can be measured.
        folder: where cubins are kept; else in the cache.
        build_limits: of one compilation.

    Raises UsageError where there is no such file, NoCompilerError where there is no ptxas.
    """

    _kind = "ptx"
    _compiler, _sources, _space = "ptxas", "PTX is", PtxasSearchSpace

    def _compiled(self, parameters: Configuration, controls: str | Mapping[str, Any]) -> Compiled:
        return compile_ptx(
            self._tool(),
            self.source,
            self.folder,
            controls,
            architecture=self.architecture,
            entry=self.entry,
            limits=self.build_limits,
        )


class CudaTarget(_CubinTarget):
    """A kernel in a CUDA source, compiled by nvcc under controls.

    As PtxTarget, and in addition: `parameters` of the kernel are macros, `-DNAME=value`; the source's own
    defaults must be those of the space. `flags` are for every build, before the controls.
    """

    _kind = "cuda"
    _compiler, _sources, _space = "nvcc", "CUDA sources are", NvccSearchSpace

    def __init__(
        self,
        source: Path | str,
        entry: str,
        provider: CompilerSearchSpace | VendorFiles | None = None,
        *,
        parameters: Space | None = None,
        flags: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        super().__init__(source, entry, provider, **more)
        self.parameters, self.flags = parameters, flags

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads."""
        return {**super().describe(), "flags": list(self.flags)}

    def _compiled(self, parameters: Configuration, controls: str | Mapping[str, Any]) -> Compiled:
        macros = [f"-D{name}={_macro(value)}" for name, value in parameters.items() if value is not None]
        return compile_cuda(
            self._tool(),
            self.source,
            self.folder,
            controls,
            architecture=self.architecture,
            flags=(*self.flags, *macros),
            limits=self.build_limits,
        )


def _macro(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _noted(path: Path) -> Configuration:
    """The kernel's parameters of a cubin that a target kept."""
    notes = path.with_suffix(".json")
    return dict(json.loads(notes.read_text())["parameters"]) if notes.is_file() else {}


@register_target("ptx")
@register_target("cuda")
def _from_description(description: Mapping[str, Any]) -> Target:
    if "variant" not in description["provider"]:
        raise UsageError(
            f"the control files of {description['entry']} are not kept in a journal; name the file that "
            "defines the target"
        )
    if description.get("run") or description.get("parameters"):
        raise UsageError(
            f"the launch or the parameters of {description['entry']} are Python, which no journal keeps; "
            "name the file that defines the target"
        )
    pinned = description["provider"]
    chosen: dict[str, Any] = {
        "compiler": pinned["compiler"],
        "variant": pinned["variant"],
        "unsafe_math": pinned["unsafe_math"],
        "architecture": description["architecture"],
    }
    if description["kind"] == "ptx":
        return PtxTarget(description["target"], description["entry"], PtxasSearchSpace(**chosen))
    flags = tuple(description.get("flags", ()))
    return CudaTarget(description["target"], description["entry"], NvccSearchSpace(**chosen), flags=flags)
