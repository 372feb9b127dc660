"""How options reach gcc and clang: by a file, `@path`."""

from __future__ import annotations

from pathlib import Path

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import options_file


class ResponseFileAdapter(Adapter):
    """Writes `@path`: behind the target's own flags, as the last of two that contradict each other wins."""

    def _render(self, controls: Controls, folder: Path) -> Injection:
        path = self.fresh(folder, ".rsp", options_file(controls))
        return Injection(arguments=(f"@{path}",), files=(path,))


@register_adapter
class GccAdapter(ResponseFileAdapter):
    """`g++ … @path`."""

    tool = "gcc"
    name = "gcc"


@register_adapter
class ClangAdapter(ResponseFileAdapter):
    """`clang++ … @path`."""

    tool = "clang"
    name = "clang"
