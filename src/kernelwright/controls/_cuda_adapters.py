"""How options reach ptxas and nvcc: by a file, `--options-file`; a vendor's file by `--apply-controls`."""

from __future__ import annotations

import re
from pathlib import Path

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import options_file
from kernelwright.controls._cuda_words import FOR_PTXAS
from kernelwright.controls._errors import ControlsError
from kernelwright.machine import cuda_help
from kernelwright.machine import CudaTool
from kernelwright.machine import find_cuda_tool

_APPLY = "--apply-controls"


def takes_vendor_files(ptxas: CudaTool) -> bool:
    """Whether this ptxas has the option for a vendor's control file. Raises NoCompilerError."""
    return f"{_APPLY} " in cuda_help(ptxas)


class _CudaAdapter(Adapter):
    """`compiler`: a path or what `find_cuda_tool` found, else the tool found when it is asked for."""

    def __init__(self, compiler: CudaTool | Path | str | None = None) -> None:
        self._asked = compiler

    def _found(self) -> CudaTool:
        if isinstance(self._asked, CudaTool):
            return self._asked
        return find_cuda_tool(self.tool, self._asked)

    def _apply(self, ptxas: CudaTool, data: bytes, folder: Path) -> Path:
        """A fresh file with a vendor's bytes. Raises ControlsError where this ptxas does not take one."""
        if not takes_vendor_files(ptxas):
            raise ControlsError(
                f"{ptxas} ({ptxas.path}) has no {_APPLY}, which takes a vendor's control file ({len(data)} "
                "bytes); 13.3 or newer has: pip install 'kernelwright[cuda-toolchain]'"
            )
        return self.fresh(folder, ".acf", data)


@register_adapter
class PtxasAdapter(_CudaAdapter):
    """`ptxas … --options-file=path`; of two that contradict each other the last wins, with a warning."""

    tool = "ptxas"
    name = "ptxas"

    def _render(self, controls: Controls, folder: Path) -> Injection:
        if not controls.options:
            return Injection()  # a file without options would be none of the baseline's, but say nothing
        path = self.fresh(folder, ".opt", "\n".join(controls.options) + "\n")
        return Injection(arguments=(f"--options-file={path}",), files=(path,))

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        path = self._apply(self._found(), data, folder)
        return Injection(arguments=(f"{_APPLY}={path}",), files=(path,))


@register_adapter
class NvccAdapter(_CudaAdapter):
    """`nvcc … --options-file=path`, in which options for ptxas are `-Xptxas=OPTION`."""

    tool = "nvcc"
    name = "nvcc"

    def _render(self, controls: Controls, folder: Path) -> Injection:
        path = self.fresh(folder, ".opt", options_file(controls))
        return Injection(arguments=(f"--options-file={path}",), files=(path,))

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        # nvcc hands the name on through a shell and splits it at blanks and commas.
        if re.search(r"[\s,'\"\\$`;&|<>()]", str(folder.absolute())):
            raise ControlsError(
                f"nvcc cannot hand a file in {str(folder)!r} to ptxas; use a folder without blanks and commas"
            )
        nvcc = self._found()
        path = self._apply(find_cuda_tool("ptxas", nvcc.beside("ptxas")), data, folder)
        return Injection(arguments=(f"{FOR_PTXAS}{_APPLY}={path}",), files=(path,))
