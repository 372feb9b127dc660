"""cuTile kernels as targets."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.controls import _kernel_compiler
from kernelwright.controls._described import provider_from
from kernelwright.controls._described import register_target
from kernelwright.controls._framework_bench import current_stream
from kernelwright.controls._framework_target import FrameworkTarget
from kernelwright.controls._framework_target import unsupported
from kernelwright.controls._target import Target
from kernelwright.controls._tile import TileAdapter
from kernelwright.controls._tile_space import TileSearchSpace
from kernelwright.errors import UsageError


class TileTarget(FrameworkTarget):
    """A `cuda.tile.kernel`; see FrameworkTarget.

    Types: `bf16[2]` is an array of two dimensions, contiguous, whose rows begin at multiples of 16 bytes;
    `i32` a number.
    """

    framework = "cutile"

    def __init__(
        self,
        kernel: str,
        provider: TileSearchSpace | None = None,
        *,
        signature: Mapping[str, str],
        **more: Any,
    ) -> None:
        provider = provider or TileSearchSpace(arch=more.get("arch", 90))
        super().__init__(kernel, provider, signature=signature, **more)

    def adapter(self) -> TileAdapter:
        """What brings controls to cuTile."""
        return TileAdapter()

    def isolation(self, folder: Path) -> dict[str, str]:
        """As the adapter has it, for the baseline as well."""
        return self.adapter().isolation(folder)

    def _launched(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        return {"symbol": launch["symbol"]}

    def _launch(
        self, folder: Path, request: dict[str, Any], arguments: Sequence[Any], grid: tuple[int, ...]
    ) -> Callable[[], Any]:
        import cuda.tile as ct

        cubin = (folder / "kernel.cubin").read_bytes()
        written = getattr(_kernel_compiler.load(request["path"]), request["function"])
        built = _kernel_compiler.tile_signature(written, request)

        class Prebuilt(ct.kernel):  # type: ignore[misc]
            """The kernel, with the artifact as what compiling it gives."""

            def _compile(self, signature: Any, *_: Any, **__: Any) -> tuple[bytes, str, None, tuple[()]]:
                if signature.calling_convention != built.calling_convention:
                    raise unsupported(
                        f"{folder.name} was built for calls by {built.calling_convention}, and this cuTile "
                        f"calls by {signature.calling_convention}"
                    )
                return cubin, built.symbol, None, ()

        kernel = Prebuilt(written._pyfunc)
        given, constants = iter(arguments), request["constants"]
        names = _kernel_compiler.parameters_of(written)
        words = tuple(constants[name] if name in constants else next(given) for name in names)
        return lambda: ct.launch(current_stream(), grid, kernel, words)


@register_target("cutile")
def _from_description(description: Mapping[str, Any]) -> Target:
    if description.get("run") or description.get("parameters"):
        raise UsageError(
            f"the launch or the parameters of {description['target']} are Python, which no journal keeps; "
            "name the file that defines the target"
        )
    provider: Any = provider_from(description["provider"])
    names = ("signature", "constants", "options", "arch")
    return TileTarget(description["target"], provider, **{name: description[name] for name in names})
