"""Short names, used as `space.choice(...)`."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.space._arrangements import Permutation
from kernelwright.space._arrangements import Subset
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Flag
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._parameters import Scalar
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Knockout


def choice(
    values: Sequence[Scalar], *, default: Value = None, log: bool = False, knockout_prob: float = 0.0
) -> Parameter:
    """One of the listed values; the first is the default unless another is named."""
    return _knocked_out(Choice(values, default=default, log=log), knockout_prob)


def range(
    low: float,
    high: float,
    step: float | None = None,
    *,
    log: bool = False,
    default: float | None = None,
    knockout_prob: float = 0.0,
) -> Parameter:
    """Numbers from `low` to `high`, both included; `low` is the default unless another is named."""
    return _knocked_out(Range(low, high, step, log=log, default=default), knockout_prob)


def log_sampling(
    low: float,
    high: float,
    step: float | None = None,
    *,
    default: float | None = None,
    knockout_prob: float = 0.0,
) -> Parameter:
    """A range whose draws and distances are on the logarithm: each magnitude is as likely."""
    return range(low, high, step, log=True, default=default, knockout_prob=knockout_prob)


def literal(value: Scalar, *, knockout_prob: float = 0.0) -> Parameter:
    """A value that is always there, or is left out with the probability `knockout_prob`."""
    return _knocked_out(Choice([value]), knockout_prob)


def flag(*, default: bool = False, knockout_prob: float = 0.0) -> Parameter:
    """On or off; off unless said otherwise."""
    return _knocked_out(Flag(default=default), knockout_prob)


def permutation(
    items: Sequence[Scalar], *, default: Sequence[Scalar] | None = None, knockout_prob: float = 0.0
) -> Parameter:
    """All items in some order; as listed unless another default is named."""
    return _knocked_out(Permutation(items, default=default), knockout_prob)


def subset(
    items: Sequence[Scalar],
    *,
    min_size: int = 0,
    max_size: int | None = None,
    default: Sequence[Scalar] | None = None,
    knockout_prob: float = 0.0,
) -> Parameter:
    """Some of the items, in the order listed; the first `min_size` unless another default is named."""
    made = Subset(items, min_size=min_size, max_size=max_size, default=default)
    return _knocked_out(made, knockout_prob)


def _knocked_out(parameter: Parameter, knockout_prob: float) -> Parameter:
    return parameter if knockout_prob == 0 else Knockout(parameter, knockout_prob)
