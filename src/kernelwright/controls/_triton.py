"""How options reach Triton: keywords of a launch, ptxas's among them, and a cache of its own."""

from __future__ import annotations

from pathlib import Path

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._assignments import assigned
from kernelwright.controls._assignments import assignment_subject
from kernelwright.controls._assignments import check_assignment
from kernelwright.controls._codec import Controls
from kernelwright.controls._cuda_adapters import takes_vendor_files
from kernelwright.controls._cuda_words import check_ptxas
from kernelwright.controls._cuda_words import ptxas_subject
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._tools import Complaint
from kernelwright.controls._tools import register_tool
from kernelwright.controls._tools import Tool
from kernelwright.controls._triton_options import triton_ptxas
from kernelwright.machine import find_cuda_tool


def _check(option: str) -> Complaint:
    return check_ptxas(option) if option.startswith(("-", "#")) or not option else check_assignment(option)


def _subject(option: str) -> str:
    return ptxas_subject(option) if option.startswith("-") else assignment_subject(option)


register_tool(Tool("triton", _check, _subject))


@register_adapter
class TritonAdapter(Adapter):
    """Launch options as `name=value`, and ptxas's as the words that they are, joined to `ptx_options`.

    `ptx_options` is part of Triton's cache key by its text alone, and which ptxas it is by what a process
    saw first: so options are always inline, control files always have a fresh path, and each injection brings
    a cache folder of its own, in which everything is compiled. The environment is for a process that has not
    imported Triton yet.

    Args:
        ptxas: what assembles, instead of the program that comes with Triton.
        arch: compute capability, 90 for sm_90; it decides which of Triton's programs that is.
    """

    tool = "triton"
    name = "triton"

    def __init__(self, ptxas: Path | str | None = None, *, arch: int = 90) -> None:
        self.ptxas = None if ptxas is None else Path(ptxas).absolute()
        self.arch = arch

    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which nothing that was compiled before is used; for the baseline too."""
        environment = {
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_CACHE_DIR": str(self.fresh_folder(folder)),
        }
        if self.ptxas is not None:
            # From Triton 3.7 on the second is used for sm_90 as well; before, for sm_100 and above.
            environment["TRITON_PTXAS_PATH"] = str(self.ptxas)
            environment["TRITON_PTXAS_BLACKWELL_PATH"] = str(self.ptxas)
        return environment

    def check_takes_control_files(self) -> None:
        """Raise ControlsError unless the ptxas that is used takes a vendor's control file."""
        ptxas = self.ptxas or triton_ptxas(self.arch)
        if not takes_vendor_files(find_cuda_tool("ptxas", ptxas)):
            raise ControlsError(
                f"{ptxas} does not take a vendor's control file (--apply-controls, 13.3 and later); name a "
                "newer one: TRITON_PTXAS_PATH, or the adapter's ptxas"
            )

    def _render(self, controls: Controls, folder: Path) -> Injection:
        keywords, flags = split_options(controls.options)
        if flags:
            keywords["ptx_options"] = flags
        return Injection(environment=self.isolation(folder), keywords=keywords)

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        self.check_takes_control_files()
        path = self.fresh(folder, ".acf", data)
        return Injection(
            environment=self.isolation(folder),
            keywords={"ptx_options": f"--apply-controls={word_of(path)}"},
            files=(path,),
        )


def split_options(options: tuple[str, ...]) -> tuple[dict[str, object], str]:
    """Keywords of a launch, and ptxas's options in one text, as `ptx_options` wants them.

    Triton splits the text at each single blank, and no option has one.
    """
    named: dict[str, object] = {**assigned(one for one in options if not one.startswith("-"))}
    return named, " ".join(one for one in options if one.startswith("-"))


def joined_options(first: str | None, second: str | None) -> str:
    """Two texts of ptxas's options as one, the second behind the first."""
    return " ".join(" ".join(filter(None, (first, second))).split())


def word_of(path: Path) -> str:
    """A path as one word of an option's text. Raises ControlsError where it would be several."""
    text = str(path)
    if set(text) & set(" \t'\"\\,"):
        raise ControlsError(
            f"the folder {str(path.parent)!r} has a blank, a comma or a quote in its name, where options are "
            "split; use another folder"
        )
    return text
