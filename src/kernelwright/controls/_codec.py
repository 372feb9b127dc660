"""Compiler configurations: a hex string of canonical text, and the file that a compiler reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

_SCHEMA = "kernelwright-controls"
_VERSION = 1
#: The tools whose options are read from `@file`, where a comment is not possible: a macro stands for it.
_TOOLS = ("clang", "gcc")
_MARK = re.compile(r"-DKERNELWRIGHT_CONTROLS_(\w+)=(\d+)")


@dataclass(frozen=True)
class Controls:
    """Options of one compiler, in the order in which it gets them."""

    tool: str
    options: tuple[str, ...]


def encode_controls(controls: Controls) -> str:
    """The hex string of the canonical text: a schema line with the tool's name, then one option a line.

    Raises UnknownNameError for a tool that is not known, UsageError for an option that is none.
    """
    if controls.tool not in _TOOLS:
        raise UnknownNameError("compiler", controls.tool, _TOOLS)
    for option in controls.options:
        if not re.fullmatch(r"-[^\s'\"\\]+", option):
            raise UsageError(f"{option!r} is not an option: it begins with - and has no blanks and no quotes")
    return _text(controls).encode().hex()


def decode_controls(config: str) -> Controls | None:
    """The options in a hex string; None where it holds the bytes of a vendor's own control file.

    Raises UsageError for what is no such string, UnknownNameError for a tool that is not known.
    """
    data = _bytes(config)
    if not data.startswith(_SCHEMA.encode()):
        return None
    first, *options = data.decode().splitlines()
    return Controls(_tool(first.split()[1:], first), tuple(options))


def save_compiler_config(path: Path | str, config: str) -> None:
    """Write a compiler configuration to the file that the compiler is given: `g++ @path`.

    A vendor's control file, whose bytes `load_compiler_config` read, is written as it was. Use a fresh path
    for each configuration: some tools keep what they built by a path, whatever the file holds by then.

    Raises UsageError when `config` is no such hex string; BASELINE_CONFIG, `{}`, has nothing to save.
    """
    controls = decode_controls(config)
    if controls is None:
        files.write_atomic(Path(path), _bytes(config))
        return
    mark = f"-DKERNELWRIGHT_CONTROLS_{controls.tool}={_VERSION}"
    files.write_atomic(Path(path), "\n".join([mark, *controls.options]) + "\n")


def load_compiler_config(path: Path | str) -> str:
    """The hex string of a file that `save_compiler_config` wrote, of canonical text, or of a vendor's file.

    Raises FileNotFoundError, UsageError and UnknownNameError as `decode_controls` does.
    """
    data = Path(path).read_bytes()
    first, _, rest = data.partition(b"\n")
    mark = _MARK.fullmatch(first.decode(errors="replace"))
    if mark is not None:
        tool = _tool([mark[2], mark[1]], mark[0])
        return encode_controls(Controls(tool, tuple(rest.decode().splitlines())))
    decode_controls(data.hex())
    return data.hex()


def compiler_arguments(config: str | Mapping[str, Any]) -> list[str]:
    """The options as words of a command line; none for BASELINE_CONFIG.

    Raises UsageError for a vendor's control file, which has no words.
    """
    if isinstance(config, Mapping) and not config:
        return []
    controls = decode_controls(config)  # type: ignore[arg-type]
    if controls is None:
        raise UsageError("this configuration is a vendor's control file; save it and name the file instead")
    return list(controls.options)


def _text(controls: Controls) -> str:
    return "\n".join([f"{_SCHEMA} {_VERSION} {controls.tool}", *controls.options]) + "\n"


def _tool(words: Iterable[str], line: str) -> str:
    version, tool, *more = [*words, "", ""]
    if version != str(_VERSION) or any(more):
        raise UsageError(
            f"compiler configuration of another version ({line!r}); this release reads {_VERSION}"
        )
    if tool not in _TOOLS:
        raise UnknownNameError("compiler", tool, _TOOLS)
    return tool


def _bytes(config: Any) -> bytes:
    if isinstance(config, Mapping) and not config:
        raise UsageError("BASELINE_CONFIG ({}) holds no options: call the compiler without any")
    if not isinstance(config, str):
        raise UsageError(
            f"a compiler configuration is a hex string, not {type(config).__name__}; in a list, each "
            "entry is a configuration of its own"
        )
    try:
        return bytes.fromhex(config)
    except ValueError as error:
        raise UsageError(f"a compiler configuration is a hex string, not {config!r:.60} ({error})") from error
