"""Compiler configurations: a hex string of canonical text, and the file that a compiler reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._errors import UnknownToolError
from kernelwright.controls._tools import known_tools
from kernelwright.controls._tools import Tool

_SCHEMA = "kernelwright-controls"
_VERSION = 1
#: First line of a file that a compiler reads itself, where a comment is not possible: a macro stands for it.
_MARK = re.compile(r"-DKERNELWRIGHT_CONTROLS_(\w+)=(\d+)")


@dataclass(frozen=True)
class Controls:
    """Options of one compiler, in the order in which it gets them."""

    tool: str
    options: tuple[str, ...]


def encode_controls(controls: Controls) -> str:
    """The hex string of the canonical text: a schema line with the tool's name, then one option a line.

    Raises UnknownToolError for a tool that is not known, ControlsError for an option that is none or that is
    there twice.
    """
    _check(controls, _tool(controls.tool))
    return _text(controls).encode().hex()


def decode_controls(config: str) -> Controls | None:
    """The options in a hex string; None where it holds the bytes of a vendor's own control file.

    Raises ControlsError, which shows where, for what is not exactly a string that `encode_controls` makes.
    """
    data = _bytes(config)
    if not _is_ours(data):
        return None
    text = _decoded(data)
    controls = _parse(text.split("\n"))
    if not text.endswith("\n") or text.endswith("\n\n"):
        last = text.count("\n") + 1
        raise ControlsError("the text must end with one line feed, after its last option", line=last)
    return controls


def save_compiler_config(path: Path | str, config: str) -> None:
    """Write a compiler configuration to a file: what gcc and clang take as `@path`, the text for other tools.

    A vendor's control file, whose bytes `load_compiler_config` read, is written as it was. Use a fresh path
    for each configuration: some tools keep what they built by a path, whatever the file holds by then.

    Raises ControlsError when `config` is no such hex string; BASELINE_CONFIG, `{}`, has nothing to save.
    """
    controls = decode_controls(config)
    if controls is None or not _tool(controls.tool).macros:
        files.write_atomic(Path(path), _bytes(config))
        return
    files.write_atomic(Path(path), options_file(controls))


def options_file(controls: Controls) -> str:
    """What gcc and clang read as `@file`, and nvcc as `--options-file`: a macro, then the options."""
    mark = f"-DKERNELWRIGHT_CONTROLS_{controls.tool}={_VERSION}"
    return "\n".join([mark, *controls.options]) + "\n"


def load_compiler_config(path: Path | str) -> str:
    """The hex string of a file that `save_compiler_config` wrote, of canonical text, or of a vendor's file.

    Text may be as editors leave it: blanks at the end of lines, empty lines, CR LF, no end of the last line.
    Raises FileNotFoundError, and ControlsError as `decode_controls` does.
    """
    data = Path(path).read_bytes()
    if not data:
        raise ControlsError(f"{path} is empty; write the line '{_SCHEMA} {_VERSION} TOOL' first")
    if not _is_ours(data):
        return data.hex()
    lines = [line.rstrip() for line in _decoded(data).split("\n")]
    mark = _MARK.fullmatch(lines[0])
    if mark is not None:
        lines[0] = f"{_SCHEMA} {mark[2]} {mark[1]}"
    return encode_controls(_parse(lines, skip_empty=True))


def compiler_arguments(config: str | Mapping[str, Any]) -> list[str]:
    """The options as words of a command line; none for BASELINE_CONFIG.

    Raises ControlsError for a vendor's control file, which has no words.
    """
    if isinstance(config, Mapping) and not config:
        return []
    controls = decode_controls(config)  # type: ignore[arg-type]
    if controls is None:
        raise ControlsError(
            "this configuration is a vendor's control file; save it and name the file instead"
        )
    words = _tool(controls.tool).words
    return [word for option in controls.options for word in words(option)]


def _text(controls: Controls) -> str:
    return "\n".join([f"{_SCHEMA} {_VERSION} {controls.tool}", *controls.options]) + "\n"


def _parse(lines: Sequence[str], *, skip_empty: bool = False) -> Controls:
    """The controls in lines of text, the last of which is what follows the last line feed."""
    words = lines[0].split(" ")
    if words[0] != _SCHEMA or len(words) != 3:
        raise ControlsError(
            f"the first line must be '{_SCHEMA} {_VERSION} TOOL', with single blanks",
            line=1,
            column=1,
            text=lines[0],
        )
    if words[1] != str(_VERSION):
        raise ControlsError(
            f"it is of another version ({words[1]!r}); this release reads {_VERSION}",
            line=1,
            column=len(_SCHEMA) + 2,
            text=lines[0],
        )
    tool = _tool(words[2], line=1, column=len(lines[0]) - len(words[2]) + 1)
    numbered = [*enumerate(lines[1:], start=2)]
    if skip_empty:
        numbered = [(number, line) for number, line in numbered if line]
    elif numbered and not numbered[-1][1]:
        numbered.pop()
    controls = Controls(tool.name, tuple(line for _, line in numbered))
    _check(controls, tool, [number for number, _ in numbered])
    return controls


def _check(controls: Controls, tool: Tool, numbers: Sequence[int] | None = None) -> None:
    """Raise ControlsError unless each option is one, and each sets something else."""
    seen: dict[str, tuple[int, str]] = {}
    for index, option in enumerate(controls.options):
        number = index + 2 if numbers is None else numbers[index]
        wrong = (0, "an option is a text") if not isinstance(option, str) else tool.check(option)
        if wrong is not None:
            raise ControlsError(wrong[1], line=number, column=wrong[0] + 1, text=str(option))
        subject = tool.subject(option)
        if subject in seen:
            before, what = seen[subject]
            raise ControlsError(
                f"{subject} was given before (line {before}: {what!r}); of two, some tools take the first, "
                "some the last: keep one",
                line=number,
                column=1,
                text=option,
            )
        seen[subject] = (number, option)


def _tool(name: str, *, line: int | None = None, column: int | None = None) -> Tool:
    known = known_tools()
    if name not in known:
        raise UnknownToolError(name, known, line=line, column=column)
    return known[name]


def _is_ours(data: bytes) -> bool:
    """Whether these bytes are meant as our text: anything that names us, and lines of options alone.

    So a text with a broken first line is not carried to a tool as if a vendor had made it.
    """
    first, _, _ = data.partition(b"\n")
    if b"kernelwright" in first.lower():
        return True
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    return data.isascii() and all(line.startswith((b"-", b"#")) for line in lines)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ControlsError(
            f"byte {data[error.start]:#04x} is not UTF-8", line=line, column=column
        ) from error


def _bytes(config: Any) -> bytes:
    if isinstance(config, Mapping) and not config:
        raise ControlsError("BASELINE_CONFIG ({}) holds no options: call the compiler without any")
    if not isinstance(config, str):
        raise ControlsError(
            f"a compiler configuration is a hex string, not {type(config).__name__}; in a list, each "
            "entry is a configuration of its own"
        )
    bad = re.search(r"[^0-9a-f]", config)
    if bad is not None or len(config) % 2 or not config:
        at = bad.start() if bad is not None else len(config)
        why = f"{bad[0]!r} is no digit of it" if bad is not None else "it is cut short"
        if not config:
            why = "it is empty"
        raise ControlsError(
            f"a compiler configuration is a hex string, not {config!r:.60}: {why}; it is lower case, as "
            "`load_compiler_config` and a search's results have it",
            offset=at,
            text=config[max(0, at - 8) : at + 8],
        )
    return bytes.fromhex(config)
