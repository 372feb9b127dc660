"""How options reach gcc and clang: by a file, `@path`."""

from __future__ import annotations

from pathlib import Path

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._adapter import register_adapter
from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import options_file
from kernelwright.controls._tools import check_flag
from kernelwright.controls._tools import Complaint
from kernelwright.controls._tools import register_tool
from kernelwright.controls._tools import Tool

_MLLVM = "-mllvm "


#: Flags whose argument is the next word: alone in a line, they would swallow the option behind them.
_TAKES_NEXT = frozenset(
    {"--param", "-D", "-I", "-L", "-U", "-Xassembler", "-Xclang", "-Xlinker", "-Xpreprocessor", "-include"}
    | {"-mllvm", "-o", "-x"}
)


def _check(option: str) -> Complaint:
    """As any flag, and no flag that waits for another word."""
    if option in _TAKES_NEXT:
        return 0, f"{option!r} is not an option: it takes the next word, whatever that is; write both as one"
    return check_flag(option)


def _check_clang(option: str) -> Complaint:
    """As any flag; `-mllvm -name=value` is one option in two words, with one blank."""
    if not option.startswith(_MLLVM):
        return _check(option)
    wrong = check_flag(option.removeprefix(_MLLVM))
    return None if wrong is None else (wrong[0] + len(_MLLVM), wrong[1])


def _words_of_clang(option: str) -> tuple[str, ...]:
    inner = option.removeprefix(_MLLVM)
    return (option,) if inner == option else (_MLLVM.strip(), inner)


register_tool(Tool("gcc", check=_check, macros=True))
register_tool(Tool("clang", check=_check_clang, words=_words_of_clang, macros=True))


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
