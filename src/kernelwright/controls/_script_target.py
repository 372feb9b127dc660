"""Kernels that a function of the user's compiles, by any framework that an adapter reaches, as targets."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.controls import _kernel_compiler
from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import adapter
from kernelwright.controls._cubin import Cubin
from kernelwright.controls._framework_target import FrameworkTarget
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._resources import resources_of


class ScriptTarget(FrameworkTarget):
    """What Helion, CuTe DSL or FlashInfer make of a kernel; see FrameworkTarget.

    `kernel` names a function of the user's, `build(options, out, constants)`, that compiles with the keywords
    in `options` and leaves cubins in the folder `out`, and whatever a launch needs. It runs in a process of
    its own, whose environment has the rest of what the adapter injects.

    `launcher` names another in that file, `launch(folder, options, arguments, grid)`, which returns the call
    that launches what is in the folder. It may compile again where the framework has no other way, with the
    same options; it is then up to it to see that this makes the same code.

    Args, besides those of FrameworkTarget:
        through: the adapter: `helion`, `cute_dsl` or `flashinfer`.
        launcher: the name of the function that launches.
    """

    framework = "script"

    def __init__(
        self,
        kernel: str,
        provider: CompilerSearchSpace,
        *,
        through: str,
        launcher: str = "launch",
        **more: Any,
    ) -> None:
        self.through, self.launcher = through, launcher
        super().__init__(kernel, provider, **more)

    @property
    def name(self) -> str:
        """Function and adapter."""
        return f"{self.path.stem}:{self.function} sm_{self.arch} ({self.through})"

    def describe(self) -> dict[str, Any]:
        """What was compiled; it cannot be made again from this, as its functions are the file's."""
        return {**super().describe(), "through": self.through, "launcher": self.launcher}

    def adapter(self) -> Adapter:
        """The adapter named."""
        return adapter(self.through)

    def isolation(self, folder: Path) -> dict[str, str]:
        """As the adapter has it, for the baseline as well."""
        found = getattr(self.adapter(), "isolation", None)
        return {} if found is None else dict(found(folder))

    def _resources(self, cubin: Path, launch: Mapping[str, Any]) -> dict[str, float | int | str]:
        # Of several kernels the first in the file; a script that leaves many can only be told apart by keys.
        read = Cubin(cubin)
        return resources_of(read, read.kernels[0]).features() if read.kernels else {}

    def _launch(
        self, folder: Path, request: dict[str, Any], arguments: Sequence[Any], grid: tuple[int, ...]
    ) -> Callable[[], Any]:
        launch = getattr(_kernel_compiler.load(request["path"]), self.launcher)
        call: Callable[[], Any] = launch(folder, request["options"], arguments, grid)
        return call
