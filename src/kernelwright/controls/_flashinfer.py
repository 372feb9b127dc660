"""How options reach FlashInfer: flags of nvcc in its environment, and a workspace of its own."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._codec import Controls
from kernelwright.controls._tools import known_tools
from kernelwright.controls._triton import word_of
from kernelwright.errors import KernelwrightError

#: Packages with binaries that FlashInfer takes instead of compiling.
PREBUILT = ("flashinfer_cubin", "flashinfer_jit_cache")


class PrebuiltKernelsError(KernelwrightError):
    """Binaries are installed that FlashInfer would run instead of what is compiled with the options."""


@register_adapter
class FlashInferAdapter(Adapter):
    """Options of nvcc in `FLASHINFER_EXTRA_CUDAFLAGS`, the last of its flags, and a private workspace.

    FlashInfer reads its workspace when it is imported: the environment is for a process that has not done so
    yet. Raises PrebuiltKernelsError where packages of binaries are installed.
    """

    tool = "nvcc"
    name = "flashinfer"

    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which nothing that was compiled before is used; for the baseline too.

        Raises PrebuiltKernelsError.
        """
        refuse_prebuilt()
        return {"FLASHINFER_WORKSPACE_BASE": str(self.fresh_folder(folder))}

    def _render(self, controls: Controls, folder: Path) -> Injection:
        words = known_tools()[self.tool].words
        return self._injection([word for option in controls.options for word in words(option)], folder)

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        path = self.fresh(folder, ".acf", data)
        made = self._injection([f"--ptxas-options=--apply-controls={word_of(path)}"], folder)
        return Injection(environment=made.environment, files=(path,))

    def _injection(self, words: list[str], folder: Path) -> Injection:
        flags = {"FLASHINFER_EXTRA_CUDAFLAGS": shlex.join(words)}
        return Injection(environment={**self.isolation(folder), **flags})


def refuse_prebuilt() -> None:
    """Raise PrebuiltKernelsError where FlashInfer would run binaries that no option reaches."""
    here = [name for name in PREBUILT if importlib.util.find_spec(name) is not None]
    if here:
        packages = " ".join(name.replace("_", "-") for name in here)
        raise PrebuiltKernelsError(
            f"{' and '.join(here)} can be imported, and FlashInfer runs the binaries in there instead of "
            f"compiling: options would change nothing. pip uninstall {packages}"
        )
    spec = importlib.util.find_spec("flashinfer")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        built = next((Path(root) / "data" / "aot").glob("*/*.so"), None)
        if built is not None:
            raise PrebuiltKernelsError(
                f"this FlashInfer comes with compiled kernels ({built.parent}), which it runs instead of "
                "compiling: options would change nothing. Install the wheel from PyPI, which has none"
            )
