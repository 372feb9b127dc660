"""Right or not, for tensors in this process: the fp64 oracle and the error budget of an operator."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelwright.ops import dtype_name
from kernelwright.ops import ErrorBudget

#: Elements compared at a time, so that a judgement of a large output needs little memory of its own.
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Judgement:
    """Whether one output is within its budget; errors are absolute unless named otherwise."""

    ok: bool
    reason: str
    max_error: float = 0.0
    allowed_error: float = 0.0
    relative_l2: float = 0.0
    allowed_l2: float = 0.0


@dataclass(frozen=True)
class Oracle:
    """What an output should be, and how far from it torch itself is in the same dtype.

    `expected` is fp64; `torch_error` is max|torch − expected| of the reference in `dtype`; `scale` is
    max|expected| over finite elements.
    """

    expected: Tensor
    dtype: torch.dtype
    torch_error: float
    torch_l2: float
    scale: float
    budget: ErrorBudget

    def judge(self, output: Tensor, *, slack: float = 1.0) -> Judgement:
        """Judge `output`; `slack` widens the budget, for peers whose rounding is theirs to choose."""
        problem = _contract_problem(output, self.expected, self.dtype)
        if problem:
            return Judgement(False, problem)
        error = _compare(output, self.expected)
        if error.nonfinite:
            return Judgement(False, error.nonfinite)
        eps = torch.finfo(self.dtype).eps
        floor = self.budget.floor_ulps * eps * self.scale
        allowed = slack * (self.budget.factor * self.torch_error + floor)
        gate = self.budget.relative_l2.get(self.dtype, 4 * eps)
        allowed_l2 = slack * max(gate, self.budget.factor * self.torch_l2)
        reason = ""
        if error.largest > allowed:
            reason = (
                f"the largest error {error.largest:.3g} is above {allowed:.3g} (torch in "
                f"{dtype_name(self.dtype)} has {self.torch_error:.3g}, the output's scale is {self.scale:.3g})"
            )
        elif error.relative_l2 > allowed_l2:
            reason = f"the relative L2 error {error.relative_l2:.3g} is above {allowed_l2:.3g}"
        return Judgement(not reason, reason, error.largest, allowed, error.relative_l2, allowed_l2)


def consult(
    reference: Callable[..., Tensor],
    arguments: Mapping[str, Any],
    *,
    budget: ErrorBudget | None = None,
    dtype: torch.dtype | None = None,
) -> Oracle:
    """The oracle of one call: `reference` on fp64 copies of `arguments`, and on themselves for torch's error."""
    same_dtype = reference(**arguments)
    expected = reference(**{name: as_fp64(value) for name, value in arguments.items()})
    return oracle_of(expected, same_dtype, budget=budget, dtype=dtype)


def oracle_of(
    expected: Tensor, same_dtype: Tensor, *, budget: ErrorBudget | None = None, dtype: torch.dtype | None = None
) -> Oracle:
    """The oracle whose fp64 result and same-dtype torch result are already there."""
    dtype = dtype or same_dtype.dtype
    error = _compare(same_dtype, expected, tolerate_nonfinite=True)
    return Oracle(
        expected, dtype, error.largest, error.relative_l2, error.scale, ErrorBudget() if budget is None else budget
    )


def as_fp64(value: Any) -> Any:
    """A floating tensor in fp64 with its strides kept where that is possible; anything else unchanged."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().to(torch.float64)
    return value


def _contract_problem(output: object, expected: Tensor, dtype: torch.dtype) -> str:
    if type(output) is not Tensor:
        return f"the output is a {type(output).__name__}, not a torch.Tensor"
    if output.dtype != dtype:
        return f"the output is {dtype_name(output.dtype)}, expected {dtype_name(dtype)}"
    if output.shape != expected.shape:
        return f"the output has shape {tuple(output.shape)}, expected {tuple(expected.shape)}"
    if output.device != expected.device:
        return f"the output is on {output.device}, expected {expected.device}"
    return ""


@dataclass(frozen=True)
class _Error:
    largest: float
    relative_l2: float
    scale: float
    nonfinite: str


def _compare(output: Tensor, expected: Tensor, *, tolerate_nonfinite: bool = False) -> _Error:
    largest = scale = squares = norm = 0.0
    nonfinite = ""
    for position, got, want in _chunks(output, expected):
        wanted = want.to(output.dtype).double()
        finite = torch.isfinite(wanted)
        if not nonfinite and not tolerate_nonfinite:
            nonfinite = _nonfinite_problem(got, wanted, finite, position)
        both = finite & torch.isfinite(got)
        difference = torch.where(both, got - want, 0.0)
        reached = torch.where(both, want, 0.0)
        largest = max(largest, float(difference.abs().max()))
        scale = max(scale, float(reached.abs().max()))
        squares += float(difference.square().sum())
        norm += float(reached.square().sum())
    relative = (squares / norm) ** 0.5 if norm else (0.0 if squares == 0 else float("inf"))
    return _Error(largest, relative, scale, nonfinite)


def _chunks(output: Tensor, expected: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    flat, want = output.detach().reshape(-1), expected.detach().reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        yield start, flat[start : start + _CHUNK].double(), want[start : start + _CHUNK]


def _nonfinite_problem(got: Tensor, wanted: Tensor, finite: Tensor, position: int) -> str:
    """Where the reference, rounded to the output's dtype, is finite the output must be, and the reverse."""
    same = torch.where(finite, torch.isfinite(got), (got == wanted) | (got.isnan() & wanted.isnan()))
    if bool(same.all()):
        return ""
    index = int((~same).nonzero()[0])
    count = int((~same).sum())
    return f"{count} elements such as number {position + index} are {got[index]}, expected {wanted[index]}"
