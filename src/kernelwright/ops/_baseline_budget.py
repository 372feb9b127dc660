"""How near a kernel has to come to a user's reference: the `ERROR_BUDGET` of a `baseline.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import torch

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.ops._spec import DTYPES
from kernelwright.ops._spec import ErrorBudget
from kernelwright.ops._spec import parse_dtype

#: Floors and gates where the file says nothing. Sums in another order differ by several units of fp32 and
#: fp64, and by none of the short formats, whose sums are fp32; a result of two bf16 numbers a factor, the
#: nearest cheaper precision, is beyond the fp32 gate.
_FLOOR_ULPS = {torch.float32: 16.0, torch.float64: 64.0}
_RELATIVE_L2 = {torch.float32: 4e-6, torch.bfloat16: 3e-3, torch.float16: 5e-4, torch.float64: 1e-13}
_BUDGET_KEYS = ("factor", "floor_ulps", "relative_l2", "atol", "rtol", "deterministic")


@dataclass(frozen=True)
class BaselineBudget:
    """How near an output must come to the fp64 result, by dtype; see `ErrorBudget` for the rule.

    `atol` and `rtol`, where given, replace the rule for the largest error: |out − ref| ≤ atol + rtol·|ref|.
    """

    factor: float = 2.0
    floor_ulps: Mapping[torch.dtype, float] = field(default_factory=lambda: dict(_FLOOR_ULPS))
    relative_l2: Mapping[torch.dtype, float] = field(default_factory=lambda: dict(_RELATIVE_L2))
    atol: float | None = None
    rtol: float | None = None

    def of(self, dtype: torch.dtype) -> ErrorBudget:
        """The budget of an output of this dtype."""
        return ErrorBudget(self.factor, self.floor_ulps.get(dtype, 1.0), self.relative_l2)


def read_budget(path: Path, given: object) -> tuple[BaselineBudget, bool]:
    """The budget that `ERROR_BUDGET` means, and whether it asks for equal bits. Raises UsageError."""
    if given is None:
        return BaselineBudget(), True
    if isinstance(given, ErrorBudget):
        floors = dict.fromkeys(DTYPES.values(), given.floor_ulps)
        return BaselineBudget(given.factor, floors, given.relative_l2), True
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{path}: ERROR_BUDGET is {article(given)}; write an ErrorBudget or a dict with any of "
            f"{', '.join(_BUDGET_KEYS)}"
        )
    unknown = [key for key in given if key not in _BUDGET_KEYS]
    if unknown:
        raise UsageError(
            f"{path}: ERROR_BUDGET has the key {unknown[0]!r}; known are {', '.join(_BUDGET_KEYS)}"
        )
    plain = BaselineBudget()
    deterministic = given.get("deterministic", True)
    if not isinstance(deterministic, bool):
        raise UsageError(f"{path}: ERROR_BUDGET['deterministic'] is {deterministic!r}; write True or False")
    budget = BaselineBudget(
        factor=_number(path, "factor", given.get("factor", plain.factor)),
        floor_ulps=_by_dtype(path, "floor_ulps", given.get("floor_ulps"), plain.floor_ulps),
        relative_l2=_by_dtype(path, "relative_l2", given.get("relative_l2"), plain.relative_l2),
        atol=None if given.get("atol") is None else _number(path, "atol", given["atol"]),
        rtol=None if given.get("rtol") is None else _number(path, "rtol", given["rtol"]),
    )
    return budget, deterministic


def _by_dtype(
    path: Path, key: str, given: object, plain: Mapping[torch.dtype, float]
) -> Mapping[torch.dtype, float]:
    if given is None:
        return dict(plain)
    if not isinstance(given, Mapping):
        return dict.fromkeys(DTYPES.values(), _number(path, key, given))
    numbers = dict(plain)
    for name, value in given.items():
        try:
            dtype = name if isinstance(name, torch.dtype) else parse_dtype(str(name))
        except UnknownNameError as error:
            raise UsageError(f"{path}: ERROR_BUDGET's {key}: {error}") from None
        numbers[dtype] = _number(path, f"{key}[{name!r}]", value)
    return numbers


def _number(path: Path, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise UsageError(f"{path}: ERROR_BUDGET's {key} is {value!r}; write a number of at least 0")
    return float(value)


def article(value: object) -> str:
    """The type of a value in words: `a dict`, `an int`."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
