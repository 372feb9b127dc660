"""How options reach Helion: its configuration, where that has a name for them, else its kernel's launch."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._codec import Controls
from kernelwright.controls._triton import joined_options
from kernelwright.controls._triton import split_options
from kernelwright.controls._triton import TritonAdapter
from kernelwright.controls._triton import word_of

#: What `helion.Config` has a name for (Helion 1.5); `advanced_controls_file` is its way to a control file.
CONFIGURED = ("num_warps", "num_stages", "maxnreg", "advanced_controls_file")


@register_adapter
class HelionAdapter(Adapter):
    """Options of Triton, for kernels of Helion's Triton backend.

    `helion_config` puts what `helion.Config` has a name for into a configuration; the rest, ptxas's options
    among it, goes with each launch: what Helion compiles takes a `_launcher`, which `helion_launcher` makes.
    A vendor's control file is Helion's `advanced_controls_file`. Helion keeps configurations that its own
    search found, and Triton keeps binaries: both get a folder of their own.
    """

    tool = "triton"
    name = "helion"

    def __init__(self, ptxas: Path | str | None = None, *, arch: int = 90) -> None:
        self._triton = TritonAdapter(ptxas, arch=arch)

    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which nothing that was compiled before is used; for the baseline too."""
        return {
            **self._triton.isolation(folder),
            "HELION_SKIP_CACHE": "1",
            "HELION_CACHE_DIR": str(self.fresh_folder(folder)),
        }

    def _render(self, controls: Controls, folder: Path) -> Injection:
        keywords, flags = split_options(controls.options)
        if flags:
            keywords["ptx_options"] = flags
        return Injection(environment=self.isolation(folder), keywords=keywords)

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        self._triton.check_takes_control_files()
        path = self.fresh(folder, ".acf", data)
        keywords = {"advanced_controls_file": word_of(path)}
        return Injection(environment=self.isolation(folder), keywords=keywords, files=(path,))


def helion_config(own: Mapping[str, Any], injected: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `helion.Config`: the kernel's own, then those of `Injection.keywords`."""
    return {**own, **{name: value for name, value in injected.items() if name in CONFIGURED}}


def helion_launcher(
    injected: Mapping[str, Any], launcher: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """What a compiled configuration is called with: `compiled(*arguments, _launcher=helion_launcher(…))`.

    It launches as Helion does (or as `launcher`), with those of `Injection.keywords` that `helion.Config`
    has no name for; `ptx_options` go behind those that Helion itself asks for. Raises ImportError without
    Helion.
    """
    if launcher is None:
        from helion.runtime import default_launcher

        launcher = default_launcher
    launch = launcher
    rest = {name: value for name, value in injected.items() if name not in CONFIGURED}
    words = rest.pop("ptx_options", None)

    def launch_with_options(*arguments: Any, **keywords: Any) -> Any:
        joined = joined_options(keywords.pop("ptx_options", None), words)
        return launch(*arguments, **keywords, **rest, **({"ptx_options": joined} if joined else {}))

    return launch_with_options
