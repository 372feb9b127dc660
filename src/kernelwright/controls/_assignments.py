"""Options written `name=value`: what Triton and cuTile take as keywords of a call."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelwright.controls._tools import Complaint

#: What a keyword is given: cuTile's hints and Triton's options are numbers, switches and names.
Assigned = bool | int | str

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=([\w.+-]+)")


def check_assignment(option: str) -> Complaint:
    """What is wrong with an option that is to be `name=value`."""
    if _ASSIGNMENT.fullmatch(option):
        return None
    name = re.match(r"[A-Za-z_]\w*", option)
    at = 0 if name is None else len(name[0]) + (option[len(name[0]) :].startswith("="))
    return at, (
        f"{option!r} is not an option: it is written name=value, without blanks and quotes, where the value "
        "is a number, true, false or a name"
    )


def assignment_subject(option: str) -> str:
    """What an option sets."""
    return option.partition("=")[0]


def assigned(options: Iterable[str]) -> dict[str, Assigned]:
    """The keywords that these options are, with typed values."""
    pairs = (option.partition("=") for option in options)
    return {name: _value(text) for name, _, text in pairs}


def assignment(name: str, value: Assigned) -> str:
    """The option that sets `name`; `assigned` reads it back."""
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def _value(text: str) -> Assigned:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text
