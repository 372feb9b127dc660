"""cuTile kernels as targets."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.controls import _kernel_compiler
from kernelwright.controls._adapter import Injection
from kernelwright.controls._framework_target import FrameworkTarget
from kernelwright.controls._framework_target import refused
from kernelwright.controls._gpu_case import GpuCase
from kernelwright.controls._target import Artifact
from kernelwright.controls._tile import TileAdapter
from kernelwright.controls._tile_space import TileSearchSpace


class TileTarget(FrameworkTarget):
    """A `cuda.tile.kernel`; see FrameworkTarget.

    Types: `bf16[2]` is an array of two dimensions, contiguous, whose rows begin at multiples of 16 bytes;
    `i32` a number.
    """

    framework = "cutile"

    def __init__(
        self,
        kernel: str,
        *,
        signature: Mapping[str, str],
        constants: Mapping[str, Any],
        provider: TileSearchSpace | None = None,
        **more: Any,
    ) -> None:
        provider = provider or TileSearchSpace(arch=more.get("arch", 90))
        super().__init__(kernel, signature=signature, constants=constants, provider=provider, **more)

    def adapter(self) -> TileAdapter:
        """What brings controls to cuTile."""
        return TileAdapter()

    def isolation(self, folder: Path) -> dict[str, str]:
        """As the adapter has it, for the baseline as well."""
        return self.adapter().isolation(folder)

    def _merged(self, options: dict[str, Any], injection: Injection) -> dict[str, Any]:
        return {**options, **injection.keywords}

    def _launched(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        return {"symbol": launch["symbol"]}

    def _launch(self, artifact: Artifact, request: dict[str, Any], case: GpuCase) -> Callable[[], None]:
        import cuda.tile as ct
        import torch

        cubin = artifact.path.read_bytes()
        written = getattr(_kernel_compiler.load(request["path"]), request["function"])
        built = _kernel_compiler.tile_signature(written, request)

        class Prebuilt(ct.kernel):  # type: ignore[misc]
            """The kernel with the artifact as what compiling it gives."""

            def _compile(self, signature: Any, *_: Any, **__: Any) -> tuple[bytes, str, None, tuple[()]]:
                if signature.calling_convention != built.calling_convention:
                    raise refused(
                        f"{artifact.path} is called by {built.calling_convention}, and this cuTile calls by "
                        f"{signature.calling_convention}"
                    )
                return cubin, built.symbol, None, ()

        kernel = Prebuilt(written._pyfunc)
        constants, given = request["constants"], iter(case.arguments)
        names = _kernel_compiler.parameters_of(written)
        words = tuple(constants[name] if name in constants else next(given) for name in names)
        return lambda: ct.launch(torch.cuda.current_stream(), case.grid, kernel, words)
