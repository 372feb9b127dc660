"""The tools whose options can be written down, and what an option of each looks like."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: Where in an option something is wrong, from 0, and what; None where nothing is.
Complaint = tuple[int, str] | None


def check_flag(option: str) -> Complaint:
    """What is wrong with an option that is one word of a command line, beginning with `-`.

    What these tools would take for something else is refused: `#` and any word without `-` is the name of a
    file, quotes belong to a shell, and `-O 0` is `-O` (which is `-O1`) and a file called 0.
    """
    if not option:
        return 0, "an empty line is not an option; remove it"
    if option.startswith("#"):
        return 0, f"{option!r} is not an option: there are no comments, the tool takes # for a file's name"
    if not option.startswith("-"):
        return 0, f"{option!r} is not an option: it begins with -"
    bad = re.search(r"[\s'\"\\\x00-\x1f\x7f#]", option)
    if bad is None:
        return None
    said = f"{option!r} is not an option: it begins with - and has no blanks and no quotes"
    if bad[0].isspace():
        name, given = option[: bad.start()], option[bad.end() :].strip()
        close = f"{name}{given}" if re.fullmatch(r"-\w", name) else f"{name}={given}"
        said += f"; write {close!r}, or each option in a line of its own"
    return bad.start(), said


def flag_subject(option: str) -> str:
    """What an option sets: the part in front of `=`, `-fno-x` as `-fx`, and each level as `-O`."""
    if re.fullmatch(r"-O\w*", option):
        return "-O"
    stem = option.rpartition("=")[0] if option.startswith("--param=") else option.partition("=")[0]
    return f"-f{stem.removeprefix('-fno-')}" if stem.startswith("-fno-") else stem


def one_word(option: str) -> tuple[str, ...]:
    """The option as the one word that it is."""
    return (option,)


@dataclass(frozen=True)
class Tool:
    """What is to be known of a tool to write options of it down; how they reach it is its adapter's matter.

    `check` says what is wrong with one option, `subject` what it sets (two of one subject contradict each
    other: some tools take the first, some the last, some refuse), `words` how a command line has it.
    `macros`: the tool reads options from a file, and takes a macro there, which stands for the schema line.
    """

    name: str
    check: Callable[[str], Complaint] = check_flag
    subject: Callable[[str], str] = flag_subject
    words: Callable[[str], tuple[str, ...]] = one_word
    macros: bool = False


_known: dict[str, Tool] = {}


def register_tool(tool: Tool) -> Tool:
    """Let the tool's name stand in a configuration. Each tool is registered by the module of its adapter."""
    _known[tool.name] = tool
    return tool


def known_tools() -> dict[str, Tool]:
    """The tools that are registered, by name."""
    return dict(_known)
