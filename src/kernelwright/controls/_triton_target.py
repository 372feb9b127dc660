"""Triton kernels as targets."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.controls import _kernel_compiler
from kernelwright.controls._adapter import Injection
from kernelwright.controls._framework_target import FrameworkTarget
from kernelwright.controls._framework_target import refused
from kernelwright.controls._gpu_case import GpuCase
from kernelwright.controls._target import Artifact
from kernelwright.controls._triton import joined_options
from kernelwright.controls._triton import TritonAdapter
from kernelwright.controls._triton_space import TritonSearchSpace

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
        *,
        signature: Mapping[str, str],
        constants: Mapping[str, Any],
        provider: TritonSearchSpace | None = None,
        divisible: Sequence[str] | None = None,
        **more: Any,
    ) -> None:
        provider = provider or TritonSearchSpace(arch=more.get("arch", 90))
        super().__init__(kernel, signature=signature, constants=constants, provider=provider, **more)
        pointers = [name for name, kind in signature.items() if kind.startswith("*")]
        self.divisible = list(pointers if divisible is None else divisible)

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads."""
        return {**super().describe(), "divisible": self.divisible}

    def adapter(self) -> TritonAdapter:
        """What brings controls to Triton, with the provider's ptxas."""
        return TritonAdapter(self.provider.compiler, arch=self.arch)

    def isolation(self, folder: Path) -> dict[str, str]:
        """As the adapter has it, for the baseline as well."""
        return self.adapter().isolation(folder)

    def _request(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._request(constants), "divisible": self.divisible}

    def _merged(self, options: dict[str, Any], injection: Injection) -> dict[str, Any]:
        merged = {**options, **injection.keywords}
        words = joined_options(options.get("ptx_options"), injection.keywords.get("ptx_options"))
        return {**merged, "ptx_options": words} if words else merged

    def _launched(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: launch[name] for name in _LAUNCHED if name in launch}

    def _launch(self, artifact: Artifact, request: dict[str, Any], case: GpuCase) -> Callable[[], None]:
        from triton.compiler import CompiledKernel
        from triton.runtime.errors import OutOfResources

        folder = artifact.path.parent
        source = _kernel_compiler.triton_source(request)
        # Handed over as what a cache would give, so that the code is the artifact's and nothing is compiled.
        group = {name: str(folder / name) for name in ("kernel.json", "kernel.cubin")}
        kernel = CompiledKernel(source, group, artifact.code_key)
        given = iter(case.arguments)
        constants = request["constants"]
        words = [constants[name] if name in constants else next(given) for name in source.fn.arg_names]
        try:
            launch = kernel[case.grid]
        except OutOfResources as error:
            raise refused(str(error)) from error
        return lambda: launch(*words)
