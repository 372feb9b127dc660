"""How options reach cuTile: hints of the kernel, which its compiler options are made of."""

from __future__ import annotations

from pathlib import Path

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._assignments import assigned
from kernelwright.controls._assignments import assignment_subject
from kernelwright.controls._assignments import check_assignment
from kernelwright.controls._codec import Controls
from kernelwright.controls._tools import register_tool
from kernelwright.controls._tools import Tool

register_tool(Tool("cutile", check_assignment, assignment_subject))


@register_adapter
class TileAdapter(Adapter):
    """Hints as keywords of `kernel.replace_hints(…)`; a vendor's control file as an argument of tileiras.

    cuTile's cache goes by the hints and the bytecode, but neither by a control file nor by which ptxas
    tileiras calls: it is switched off, in an environment for a process that has not imported cuTile yet.
    There is no option of cuTile for arguments of tileiras: `tileiras_arguments` is a context that adds them.
    """

    tool = "cutile"
    name = "cutile"

    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which nothing that was compiled before is used; for the baseline too."""
        return {"CUDA_TILE_CACHE_DIR": "off", "CUDA_TILE_TEMP_DIR": str(self.fresh_folder(folder))}

    def _render(self, controls: Controls, folder: Path) -> Injection:
        return Injection(environment=self.isolation(folder), keywords=assigned(controls.options))

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        path = self.fresh(folder, ".acf", data)
        return Injection(
            arguments=(f"--apply-controls={path}",), environment=self.isolation(folder), files=(path,)
        )
