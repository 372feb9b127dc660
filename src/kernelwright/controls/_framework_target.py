"""Kernels that a Python framework compiles, as targets: built by a child, launched by the framework."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import ClassVar

from kernelwright import settings
from kernelwright.controls import _kernel_compiler
from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._cubin import cubin_key
from kernelwright.controls._cuda_launch import KernelRun
from kernelwright.controls._described import provider_description
from kernelwright.controls._framework_bench import FrameworkBench
from kernelwright.controls._gpu_measured import MeasuredOnGpu
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._resources import resources_of
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import build_status
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.errors import UsageError
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.process import run as run_process
from kernelwright.search import StageFailure
from kernelwright.space import Configuration
from kernelwright.space import Space

_LIMITS = Limits(wall_s=120.0)
#: What frameworks read of the environment that would put something else in the place of what is asked for.
_FOREIGN = (
    "CUTE_DSL_COMPILER_OPT",
    "DISABLE_PTXAS_OPT",
    "FLASHINFER_EXTRA_",
    "FLASHINFER_JIT_",
    "PTXAS_OPTIONS",
    "TRITON_INTERPRET",
    "TRITON_KERNEL_",
    "USE_IR_LOC",
)


class FrameworkTarget(MeasuredOnGpu):
    """A kernel in a Python file, for one GPU architecture, under the controls of its framework's compiler.

    Building needs no GPU: a child compiles in a cache of its own, and what is kept goes by the code key, so
    that nothing that another configuration made is taken for it, and equal binaries are kept once.

    Measuring needs one. The framework launches the artifact itself, whose output is checked first; then it is
    timed in turns with the baseline.

    Args:
        kernel: `path/of/file.py:function`.
        provider: the search space of the compiler's controls.
        constants: what is compiled in, by parameter.
        signature: the type of each parameter that is no constant, as the framework writes it.
        run: how it is launched, on what, and what is right; its arguments are those that are no constants,
            and its functions get the constants. None: build only.
        parameters: what can be chosen besides, by the name of a constant or of a launch option.
        options: the kernel's own launch options; controls replace them.
        arch: compute capability, 90 for sm_90.
        build_limits: of one compilation.
    """

    #: As `_kernel_compiler` and `target_from` know it.
    framework: ClassVar[str]

    def __init__(
        self,
        kernel: str,
        provider: CompilerSearchSpace,
        *,
        constants: Mapping[str, Any] | None = None,
        signature: Mapping[str, str] | None = None,
        run: KernelRun | None = None,
        parameters: Space | None = None,
        options: Mapping[str, Any] | None = None,
        arch: int = 90,
        build_limits: Limits = _LIMITS,
    ) -> None:
        super().__init__(run)
        file, _, function = kernel.rpartition(":")
        if not file or not Path(file).is_file():
            raise UsageError(f"{kernel!r} does not name a kernel; write path/of/file.py:function")
        self.path, self.function = Path(file).absolute(), function
        self.signature, self.constants = dict(signature or {}), dict(constants or {})
        self.provider, self.parameters = provider, parameters
        self.options = dict(options or {})
        self.arch, self.build_limits = arch, build_limits
        if provider.tool != self.adapter().tool:
            raise UsageError(
                f"{self.framework} takes options of {self.adapter().tool}, not of {provider.tool}"
            )

    @property
    def name(self) -> str:
        """Kernel and framework."""
        return f"{self.function} sm_{self.arch} ({self.framework})"

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads; what is Python, as `run`, is said to be there and not kept."""
        return {
            "kind": self.framework,
            "target": f"{self.path}:{self.function}",
            "signature": self.signature,
            "constants": self.constants,
            "options": self.options,
            "arch": self.arch,
            "parameters": self.parameters is not None,
            "run": self.run is not None,
            "provider": provider_description(self.provider),
        }

    # -- building ------------------------------------------------------------------------------------------

    @abstractmethod
    def adapter(self) -> Adapter:
        """What brings controls to the framework."""

    @abstractmethod
    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which the framework takes nothing from a cache."""

    def build(self, config: Config) -> Artifact:
        """Compile in a cache that is gone when it is done. Raises BuildFailure, ControlsError."""
        chosen, controls = split_config(config, mixed=self.parameters is not None)
        if self.parameters is not None:
            chosen = self.parameters.validate({**self.parameters.default, **chosen})
        folder = self._root() / f"build-{secrets.token_hex(8)}"
        folder.mkdir(parents=True)
        try:
            injection = self.adapter().inject(controls or {}, folder)
            return self._build(self._request(chosen, injection), injection, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _request(self, chosen: Mapping[str, Any], injection: Injection) -> dict[str, Any]:
        """What the child is asked for, and what a launch has to know."""
        constants = {name: chosen.get(name, value) for name, value in self.constants.items()}
        own = {name: value for name, value in chosen.items() if name not in constants and value is not None}
        return {
            "framework": self.framework,
            "path": str(self.path),
            "function": self.function,
            "signature": self.signature,
            "constants": constants,
            "options": self._merged({**self.options, **own}, injection),
            "arguments": list(injection.arguments),
            "arch": self.arch,
        }

    def _merged(self, options: dict[str, Any], injection: Injection) -> dict[str, Any]:
        """The launch options with the injected ones in their place."""
        return {**options, **injection.keywords}

    def _build(self, request: dict[str, Any], injection: Injection, folder: Path) -> Artifact:
        out = folder / "out"
        out.mkdir()
        (folder / "request.json").write_text(json.dumps({**request, "out": str(out)}))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        environment |= {**self.isolation(folder), **injection.environment}
        outcome = run_process(
            [sys.executable, str(Path(_kernel_compiler.__file__)), str(folder / "request.json")],
            limits=self.build_limits,
            env=environment,
            cwd=folder,
        )
        cubins = sorted(out.glob("*.cubin"))
        if not outcome.ok or not cubins:
            raise _failure(outcome)
        launch = json.loads((out / "kernel.json").read_text()) if (out / "kernel.json").is_file() else {}
        known = [[cubin_key(one) for one in cubins], request["constants"], self._launched(launch)]
        key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]
        (out / "request.json").write_text(json.dumps(request))
        kept = self._keep(out, key)
        path = kept / cubins[0].name
        return Artifact(path, key, outcome.stderr, self._resources(path, launch), outcome.wall_s)

    def _launched(self, launch: Mapping[str, Any]) -> Mapping[str, Any]:
        """What decides, beside code and constants, how the kernel runs."""
        return {}

    def _resources(self, cubin: Path, launch: Mapping[str, Any]) -> dict[str, float | int | str]:
        """Features by name, known without running the kernel."""
        return resources_of(cubin).features()

    def _root(self) -> Path:
        return settings.cache_dir() / "controls" / self.framework

    def _keep(self, made: Path, key: str) -> Path:
        """Move a folder to the place of its key, unless the same is there already."""
        kept = self._root() / key
        try:
            made.rename(kept)
        except OSError:
            if not (kept / "request.json").is_file():
                raise
        return kept

    # -- measuring -----------------------------------------------------------------------------------------

    def make_bench(self, run: KernelRun) -> FrameworkBench:
        """What checks and times artifacts as the framework launches them."""
        return FrameworkBench(run, f"sm_{self.arch}", self._load)

    def entry_of(self, artifact: Artifact) -> tuple[Path, str, Configuration]:
        """An artifact, the function, and the constants that it was built with."""
        return artifact.path, self.function, _constants(artifact)

    def _load(self, folder: Path, arguments: Sequence[Any], grid: Sequence[int]) -> Callable[[], Any]:
        request = json.loads((folder / "request.json").read_text())
        return self._launch(folder, request, arguments, (*grid, 1, 1)[:3])

    @abstractmethod
    def _launch(
        self, folder: Path, request: dict[str, Any], arguments: Sequence[Any], grid: tuple[int, ...]
    ) -> Callable[[], Any]:
        """A call that launches the code in the folder on torch's stream. Raises StageFailure."""


def unsupported(why: str) -> StageFailure:
    """What was built does not run on this GPU, and never will."""
    return StageFailure(why, kind="unsupported", lasts=True)


def _constants(artifact: Artifact) -> dict[str, Any]:
    return dict(json.loads((artifact.path.parent / "request.json").read_text())["constants"])


def _failure(outcome: Outcome) -> BuildFailure:
    log = outcome.stderr + outcome.stdout
    if outcome.end is End.TIMED_OUT:
        return BuildFailure("build_timeout", f"the compiler was {outcome.describe()}", log)
    if outcome.end is not End.EXITED:
        return BuildFailure("compiler_crashed", f"the compiler was {outcome.describe()}", log)
    crashed = "raised SIG" in log or "error code -" in log
    status = "compiler_crashed" if crashed else build_status("build_failed", log)
    return BuildFailure(status, _said(outcome.stderr), log)


def _said(stderr: str) -> str:
    """What went wrong: what an assembler calls fatal, else the exception and all behind it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if re.search(r"\bfatal\b", line)]
    raised = [at for at, line in enumerate(lines) if re.match(r"[A-Za-z_][\w.]*: \S", line)]
    return (fatal or [" ".join(lines[raised[-1] :]) if raised else (lines or ["it said nothing"])[-1]])[0][
        :500
    ]
