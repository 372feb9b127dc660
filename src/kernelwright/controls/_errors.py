"""What is wrong with a compiler configuration, and where."""

from __future__ import annotations

from collections.abc import Iterable

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

_SHOWN = 60


class ControlsError(UsageError):
    """A compiler configuration that is malformed, or that cannot reach the tool it is given to.

    `line` and `column` count from 1 in the canonical text, `offset` from 0 in a hex string or in bytes; each
    is None where it makes no sense. `text` is the line, or the part of the string, that is meant.
    """

    def __init__(
        self,
        what: str,
        *,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
        text: str | None = None,
    ) -> None:
        self.line, self.column, self.offset, self.text = line, column, offset, text
        Exception.__init__(self, f"{self._where()}{what}")

    def _where(self) -> str:
        """The place, in words, as the beginning of a sentence; empty where there is none."""
        line, column, offset, text = self.line, self.column, self.offset, self.text
        where = []
        if line is not None:
            where.append(f"line {line}" + (f", column {column}" if column is not None else ""))
        elif offset is not None:
            where.append(f"character {offset}")
        if text is not None:
            where.append(repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"))
        return f"compiler configuration, {', '.join(where)}: " if where else ""


class UnknownToolError(ControlsError, UnknownNameError):
    """A compiler configuration for a tool that is not known."""

    def __init__(self, tool: str, known: Iterable[str], *, line: int | None, column: int | None) -> None:
        named = UnknownNameError("compiler", tool, known)
        self.kind, self.name, self.nearest = named.kind, named.name, named.nearest
        super().__init__(str(named), line=line, column=column)
