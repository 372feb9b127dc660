"""Short names, used as `space.choice(...)`."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Flag
from kernelwright.space._parameters import Range
from kernelwright.space._parameters import Value


def choice(values: Sequence[Value], *, default: Value | None = None, log: bool = False) -> Choice:
    """One of the listed values; the first is the default unless another is named."""
    return Choice(values, default=default, log=log)


def range(
    low: float, high: float, step: float | None = None, *, log: bool = False, default: float | None = None
) -> Range:
    """Numbers from `low` to `high`, both included; `low` is the default unless another is named."""
    return Range(low, high, step, log=log, default=default)


def flag(*, default: bool = False) -> Flag:
    """On or off; off unless said otherwise."""
    return Flag(default=default)
