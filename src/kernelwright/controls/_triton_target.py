"""Triton kernels as targets."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.controls import _kernel_compiler
from kernelwright.controls._adapter import Injection
from kernelwright.controls._described import provider_from
from kernelwright.controls._described import register_target
from kernelwright.controls._framework_target import FrameworkTarget
from kernelwright.controls._framework_target import unsupported
from kernelwright.controls._resources import resources_of
from kernelwright.controls._target import Target
from kernelwright.controls._triton import joined_options
from kernelwright.controls._triton import TritonAdapter
from kernelwright.controls._triton_space import TritonSearchSpace
from kernelwright.errors import UsageError

#: What a launch takes from Triton's description of a kernel.
_LAUNCHED = ("num_warps", "num_ctas", "shared", "launch_pdl", "launch_cooperative_grid", "cluster_dims")


class TritonTarget(FrameworkTarget):
    """A `triton.jit` kernel; see FrameworkTarget.

    Types are Triton's: `*bf16` for a pointer, `i32`, `fp32`. `divisible` names the parameters that are taken
    to be multiples of 16, as Triton finds of tensors and of most sizes at a launch; pointers unless given.
    """

    framework = "triton"

    def __init__(
        self,
        kernel: str,
        provider: TritonSearchSpace | None = None,
        *,
        signature: Mapping[str, str],
        divisible: Sequence[str] | None = None,
        **more: Any,
    ) -> None:
        pointers = [name for name, kind in signature.items() if kind.startswith("*")]
        self.divisible = list(pointers if divisible is None else divisible)
        provider = provider or TritonSearchSpace(arch=more.get("arch", 90))
        super().__init__(kernel, provider, signature=signature, **more)

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads."""
        return {**super().describe(), "divisible": self.divisible}

    def adapter(self) -> TritonAdapter:
        """What brings controls to Triton, with the provider's ptxas."""
        return TritonAdapter(self.provider.compiler, arch=self.arch)

    def isolation(self, folder: Path) -> dict[str, str]:
        """As the adapter has it, for the baseline as well."""
        return self.adapter().isolation(folder)

    def _request(self, chosen: Mapping[str, Any], injection: Injection) -> dict[str, Any]:
        return {**super()._request(chosen, injection), "divisible": self.divisible}

    def _merged(self, options: dict[str, Any], injection: Injection) -> dict[str, Any]:
        merged = {**options, **injection.keywords}
        words = joined_options(options.get("ptx_options"), injection.keywords.get("ptx_options"))
        return {**merged, "ptx_options": words} if words else merged

    def _launched(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: launch[name] for name in _LAUNCHED if name in launch}

    def _resources(self, cubin: Path, launch: Mapping[str, Any]) -> dict[str, float | int | str]:
        # Triton asks for all of its shared memory at the launch.
        threads = 32 * int(launch["num_warps"])
        return resources_of(cubin, threads=threads, dynamic_shared=int(launch["shared"])).features()

    def _launch(
        self, folder: Path, request: dict[str, Any], arguments: Sequence[Any], grid: tuple[int, ...]
    ) -> Callable[[], Any]:
        from triton.compiler import CompiledKernel
        from triton.runtime.errors import OutOfResources

        source = _kernel_compiler.triton_source(request)
        # Handed over as what a cache would give, so that the code is the artifact's and nothing is compiled.
        group = {name: str(folder / name) for name in ("kernel.json", "kernel.cubin")}
        kernel = CompiledKernel(source, group, folder.name)
        given, constants = iter(arguments), request["constants"]
        words = [constants[name] if name in constants else next(given) for name in source.fn.arg_names]
        try:
            launch = kernel[grid]
        except OutOfResources as error:
            raise unsupported(str(error)) from error
        return lambda: launch(*words)


@register_target("triton")
def _from_description(description: Mapping[str, Any]) -> Target:
    if description.get("run") or description.get("parameters"):
        raise UsageError(
            f"the launch or the parameters of {description['target']} are Python, which no journal keeps; "
            "name the file that defines the target"
        )
    names = ("signature", "constants", "options", "arch", "divisible")
    provider: Any = provider_from(description["provider"])
    return TritonTarget(description["target"], provider, **{name: description[name] for name in names})
