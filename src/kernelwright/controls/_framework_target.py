"""Kernels that a Python framework compiles, as targets: built by a child, launched by the framework."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from abc import ABC
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import ClassVar

from kernelwright import settings
from kernelwright.build import code_key
from kernelwright.controls import _kernel_compiler
from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._gpu_case import GpuCase
from kernelwright.controls._gpu_case import Paired
from kernelwright.controls._gpu_case import paired
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import build_status
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.errors import UsageError
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.process import run
from kernelwright.search import StageFailure
from kernelwright.space import Configuration
from kernelwright.space import Space

_LIMITS = Limits(wall_s=120.0)
#: What frameworks read of the environment that would put something else in the place of what is asked for.
_FOREIGN = (
    "CUTE_DSL_",
    "DISABLE_PTXAS_OPT",
    "PTXAS_OPTIONS",
    "TRITON_INTERPRET",
    "TRITON_KERNEL_",
    "USE_IR_LOC",
)


class FrameworkTarget(ABC):
    """A kernel in a Python file, for one GPU architecture, under the controls of its framework's compiler.

    Building needs no GPU: a child compiles in a cache of its own, and what is kept goes by the code key, so
    that nothing that another configuration made is taken for it, and equal binaries are kept once.

    Measuring needs one. The framework launches the artifact itself, whose output is judged first; then it is
    timed against the baseline, block against block. The seconds returned are those of the baseline as first
    measured, divided by the median ratio, so that they do not drift with the clocks. Call `calibrate` before
    several processes measure: they then share that first measurement.

    Args:
        kernel: `path/of/file.py:function`.
        signature: the type of each parameter that is no constant, as the framework writes it.
        constants: what is compiled in, by parameter.
        case: the name of a function in that file which makes a GpuCase from the constants; None: build only.
        provider: the search space of the compiler's controls.
        parameters: what can be chosen besides, by the name of a constant or of a launch option.
        options: the kernel's own launch options; controls replace them.
        build_limits: of one compilation.
    """

    #: As `_kernel_compiler` knows it.
    framework: ClassVar[str]

    def __init__(
        self,
        kernel: str,
        *,
        signature: Mapping[str, str],
        constants: Mapping[str, Any],
        provider: CompilerSearchSpace,
        case: str | None = None,
        parameters: Space | None = None,
        options: Mapping[str, Any] | None = None,
        arch: int = 90,
        build_limits: Limits = _LIMITS,
    ) -> None:
        file, _, function = kernel.rpartition(":")
        if not file or not Path(file).is_file():
            raise UsageError(f"{kernel!r} does not name a kernel; write path/of/file.py:function")
        if provider.tool != self.framework:
            raise UsageError(
                f"{self.framework} kernels take options of {self.framework}, not {provider.tool}"
            )
        self.path, self.function = Path(file).absolute(), function
        self.signature, self.constants = dict(signature), dict(constants)
        self.provider, self.parameters = provider, parameters
        self.case, self.options = case, dict(options or {})
        self.arch, self.build_limits = arch, build_limits
        #: Seconds of one call of the baseline, as first measured; None before.
        self.baseline_s: float | None = None
        #: The last measurement.
        self.paired: Paired | None = None
        self._baseline: Artifact | None = None
        self._ready: tuple[GpuCase, Callable[[], None]] | None = None

    @property
    def name(self) -> str:
        """Kernel and framework."""
        return f"{self.function} ({self.framework}, sm_{self.arch})"

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads."""
        return {
            "kind": self.framework,
            "target": f"{self.path}:{self.function}",
            "signature": self.signature,
            "constants": self.constants,
            "case": self.case,
            "options": self.options,
            "arch": self.arch,
            "parameters": self.parameters is not None,
            "provider": self.provider.pin(),
        }

    # -- building ------------------------------------------------------------------------------------------

    @abstractmethod
    def adapter(self) -> Adapter:
        """What brings controls to the framework."""

    @abstractmethod
    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which the framework takes nothing from a cache."""

    @abstractmethod
    def _merged(self, options: dict[str, Any], injection: Injection) -> dict[str, Any]:
        """The launch options with the injected ones in their place."""

    def build(self, config: Config) -> Artifact:
        """Compile under a configuration, in a cache that is gone when it is done."""
        chosen, controls = split_config(config, mixed=self.parameters is not None)
        folder = self._root() / f"build-{secrets.token_hex(8)}"
        folder.mkdir(parents=True)
        try:
            return self._build(chosen, controls, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _build(self, chosen: Configuration, controls: str | None, folder: Path) -> Artifact:
        injection = self.adapter().inject(controls or {}, folder)
        constants = {name: chosen.get(name, value) for name, value in self.constants.items()}
        own = {name: value for name, value in chosen.items() if name not in constants and value is not None}
        out = folder / "out"
        out.mkdir()
        request = {
            **self._request(constants),
            "options": self._merged({**self.options, **own}, injection),
            "arguments": list(injection.arguments),
            "out": str(out),
        }
        (folder / "request.json").write_text(json.dumps(request))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        environment |= {**self.isolation(folder), **injection.environment}
        outcome = run(
            [sys.executable, str(Path(_kernel_compiler.__file__)), str(folder / "request.json")],
            limits=self.build_limits,
            env=environment,
            cwd=folder,
        )
        if not outcome.ok or not (out / "kernel.cubin").is_file():
            raise _failure(outcome)
        launch = json.loads((out / "kernel.json").read_text())
        key = _key(out / "kernel.cubin", constants, self._launched(launch))
        (out / "request.json").write_text(json.dumps(request))
        path = self._keep(out, key) / "kernel.cubin"
        return Artifact(path, key, outcome.stderr, self._resources(path, launch), outcome.wall_s)

    def _request(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "framework": self.framework,
            "path": str(self.path),
            "function": self.function,
            "signature": self.signature,
            "constants": dict(constants),
            "arch": self.arch,
        }

    @abstractmethod
    def _launched(self, launch: Mapping[str, Any]) -> Mapping[str, Any]:
        """What decides, beside the code, how the kernel runs."""

    def _resources(self, cubin: Path, launch: Mapping[str, Any]) -> dict[str, float | int | str]:
        """Features by name, known without running the kernel."""
        numbers = {name: value for name, value in self._launched(launch).items() if isinstance(value, int)}
        return {**numbers, "cubin_bytes": cubin.stat().st_size}

    def _root(self) -> Path:
        return settings.cache_dir() / "controls" / self.framework

    def _keep(self, made: Path, key: str) -> Path:
        """Move a folder to the place of its key, unless the same is there already."""
        kept = self._root() / key
        try:
            made.rename(kept)
        except OSError:
            if not (kept / "kernel.cubin").is_file():
                raise
        return kept

    # -- measuring -----------------------------------------------------------------------------------------

    def calibrate(self) -> float:
        """Seconds of one call of the baseline, measured unless it was."""
        if self.baseline_s is None:
            self.measure(self.build({}))
        assert self.baseline_s is not None
        return self.baseline_s

    def measure(self, artifact: Artifact) -> float:
        """Seconds of one call; see the class. Raises StageFailure."""
        if self._baseline is None:
            self._baseline = self.build({})
        if self._ready is None:
            self._ready = self._prepare(self._baseline)
        case, baseline = self._ready
        case, candidate = self._prepare(artifact, case)
        case.check(candidate)
        self.paired = paired(baseline, candidate)
        if self.baseline_s is None:
            self.baseline_s = sorted(self.paired.baseline)[len(self.paired.baseline) // 2]
        if artifact.code_key == self._baseline.code_key:
            return self.baseline_s
        return self.baseline_s / self.paired.ratio

    def _prepare(
        self, artifact: Artifact, known: GpuCase | None = None
    ) -> tuple[GpuCase, Callable[[], None]]:
        """The case, made anew only for other constants, and a launch of the artifact."""
        import torch

        if not torch.cuda.is_available():
            raise UsageError(f"{self.name} is measured on an NVIDIA GPU, and none is here; build needs none")
        if self.case is None:
            raise UsageError(f"{self.name} has no case to measure; name the function that makes one")
        request = json.loads((artifact.path.parent / "request.json").read_text())
        case = known
        if case is None or request["constants"] != self.constants:
            case = getattr(_kernel_compiler.load(str(self.path)), self.case)(request["constants"])
        assert isinstance(case, GpuCase)
        return case, self._launch(artifact, request, case)

    @abstractmethod
    def _launch(self, artifact: Artifact, request: dict[str, Any], case: GpuCase) -> Callable[[], None]:
        """A call that launches the artifact's own code on the current stream. Raises StageFailure."""

    def __getstate__(self) -> Mapping[str, Any]:
        # What is on the GPU of one process stays there.
        return {**self.__dict__, "_ready": None, "paired": None}


def _key(cubin: Path, constants: Mapping[str, Any], launched: Mapping[str, Any]) -> str:
    """A name for the code and for how it is launched: constants decide the grid."""
    text = json.dumps([code_key(cubin), dict(constants), dict(launched)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _failure(outcome: Outcome) -> BuildFailure:
    log = outcome.stderr + outcome.stdout
    if outcome.end is End.TIMED_OUT:
        return BuildFailure("build_timeout", f"the compiler was {outcome.describe()}", log)
    if outcome.end is not End.EXITED:
        return BuildFailure("compiler_crashed", f"the compiler was {outcome.describe()}", log)
    lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if re.search(r"\bfatal\b", line)]
    crashed = "raised SIG" in log or "error code -" in log
    status = "compiler_crashed" if crashed else build_status("build_failed", log)
    return BuildFailure(status, (fatal or lines[-2:] or ["it said nothing"])[0], log)


def refused(why: str) -> StageFailure:
    """What was built does not run on this GPU, and never will."""
    return StageFailure(why, kind="unsupported", lasts=True)
