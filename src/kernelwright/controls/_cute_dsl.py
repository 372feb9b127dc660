"""How options reach CuTe DSL: `--ptxas-options` among the options of `cute.compile`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._codec import Controls
from kernelwright.controls._triton import joined_options
from kernelwright.controls._triton import word_of

_PTXAS = re.compile(r"--ptxas-options(?:=|\s+)(?:'([^']*)'|\"([^\"]*)\"|(\S+))")


@register_adapter
class CuteDslAdapter(Adapter):
    """Options of ptxas as the keyword `options` of `cute.compile(…)`; for TVM-FFI likewise.

    `cute_options` joins them to those that a call has already: of two `--ptxas-options`, only one counts.
    `cute_controls` is a context that does so for every call in it, for code whose calls cannot be reached.
    `cute.compile` itself keeps nothing; functions that are called without it are kept on disk, by a key that
    does not know of ptxas's options, which the environment switches off.
    """

    tool = "ptxas"
    name = "cute_dsl"

    def isolation(self, folder: Path) -> dict[str, str]:
        """The environment in which nothing that was compiled before is used; for the baseline too."""
        return {
            "CUTE_DSL_NO_CACHE": "1",
            "CUTE_DSL_DISABLE_FILE_CACHING": "1",
            "CUTE_DSL_CACHE_DIR": str(self.fresh_folder(folder)),
        }

    def _render(self, controls: Controls, folder: Path) -> Injection:
        words = " ".join(controls.options)
        keywords = {"options": f"--ptxas-options '{words}'"} if words else {}
        return Injection(environment=self.isolation(folder), keywords=keywords)

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        # The ptxas is built into CuTe DSL, which does not tell its version: an older one refuses the option.
        path = self.fresh(folder, ".acf", data)
        keywords = {"options": f"--ptxas-options '--apply-controls={word_of(path)}'"}
        return Injection(environment=self.isolation(folder), keywords=keywords, files=(path,))


def cute_options(own: str | None, injected: Mapping[str, Any]) -> str:
    """The text for `options`: a call's own, with ptxas's options of `Injection.keywords` behind its own."""
    own, more = own or "", str(injected.get("options", ""))
    if not more:
        return own
    words = joined_options(_ptxas_words(own), _ptxas_words(more))
    return f"{_PTXAS.sub('', own).rstrip()} --ptxas-options '{words}'".strip()


@contextlib.contextmanager
def cute_controls(injected: Mapping[str, Any]) -> Iterator[None]:
    """In the block, every `cute.compile(…)` and `cute.compile[…](…)` has those of `Injection.keywords` too.

    Not for several threads at once. Raises ImportError without CuTe DSL.
    """
    words = _ptxas_words(str(injected.get("options", "")))
    if not words:
        yield
        return
    from cutlass.base_dsl.compiler import CompileCallable
    from cutlass.base_dsl.compiler import PtxasOptions

    call = CompileCallable.__call__

    def with_options(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(keywords.get("options"), str) and keywords["options"]:
            return call(
                self, *arguments, **{**keywords, "options": cute_options(keywords["options"], injected)}
            )
        # A text would replace the options in brackets: those are kept, and ptxas's joined to them.
        option = self._compile_options.options[PtxasOptions]
        before = option.value
        option.value = joined_options(before.strip("'\""), words)
        try:
            return call(self, *arguments, **keywords)
        finally:
            option.value = before

    CompileCallable.__call__ = with_options
    try:
        yield
    finally:
        CompileCallable.__call__ = call


def _ptxas_words(options: str) -> str:
    return " ".join(next(filter(None, said), "") for said in _PTXAS.findall(options))
