"""Large outputs of operators whose rows stand for themselves: judged on the rows that matter.

The fp64 oracle of a large output takes seconds. Where each row of the output comes from the same row of the
inputs alone, the rule of `Expectation` is applied to a few hundred rows: the first, the last, those with the
largest values, others that nobody knew beforehand, and those that are furthest from torch's own output in the
same dtype, with which every element is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from kernelwright.ops import OperatorSpec
from kernelwright.referee._oracle import count_unwritten
from kernelwright.referee._oracle import expect
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._oracle import INTEGERS
from kernelwright.referee._oracle import same_bits

_LARGE_ELEMENTS = 1 << 22
_LOOKED_AT_ELEMENTS = 1 << 20
_MIN_ROWS = 16
_FURTHEST_ROWS = 24
_TALL_ROWS = 8
_CHUNK = 1 << 22
_REMEMBERED = 4


@dataclass
class LargeExpectation:
    """Torch's output, flat and in full, and what the oracle needs for any rows of it."""

    spec: OperatorSpec
    arguments: Mapping[str, Any]
    carriers: tuple[str, ...]
    peer: Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype
    rows: Tensor
    tall: Tensor
    flushed: bool
    _exact: Expectation | None = None
    _accepted: list[Tensor] = field(default_factory=list)

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return self.peer.numel()

    def fault(self, output: Tensor, *, unwritten: int | None = None) -> str | None:
        """What is wrong with `output`, with numbers, or None; see Expectation.fault."""
        if any(same_bits(output, known) for known in self._accepted):
            return None
        if self._exact is None:
            self._exact = self._expect(self.rows)
        furthest = torch.unique(torch.cat([self._furthest(output), self.tall]))
        for rows, exact in ((furthest, self._expect(furthest)), (self.rows, self._exact)):
            text = exact.fault(output[rows], row_numbers=rows)
            if text is not None:
                missing = count_unwritten(output, unwritten) if unwritten is not None else ""
                return f"{missing}; {text}" if missing else text
        if len(self._accepted) < _REMEMBERED:
            self._accepted.append(output.clone())
        return None

    def _expect(self, rows: Tensor) -> Expectation:
        return expect(self.spec, select_rows(self.arguments, self.carriers, rows), flushed=self.flushed)

    def _furthest(self, output: Tensor) -> Tensor:
        """The rows that differ most from torch's, those with NaN where torch has none first."""
        distances = []
        peer = self.peer.reshape(self.shape[0], -1)
        mine = output.reshape(self.shape[0], -1)
        step = max(1, _CHUNK // max(1, peer.shape[1]))
        for start in range(0, self.shape[0], step):
            error = (mine[start : start + step].float() - peer[start : start + step].float()).abs_()
            distances.append(error.amax(dim=1))
        return (
            torch.cat(distances)
            .nan_to_num_(nan=float("inf"))
            .topk(min(_FURTHEST_ROWS, self.shape[0]))
            .indices
        )


def expect_any(
    spec: OperatorSpec, arguments: Mapping[str, Any], *, flushed: bool = False, seed: int
) -> Expectation | LargeExpectation:
    """The expectation of a call; `seed` draws the rows that are looked at where the output is large."""
    elements = max((value.numel() for value in arguments.values() if isinstance(value, Tensor)), default=0)
    carriers = row_arguments(spec) if elements > _LARGE_ELEMENTS else ()
    if not carriers:
        return expect(spec, arguments, flushed=flushed)
    peer = spec.reference(**arguments)
    count = peer.shape[0]
    wanted = min(count, max(_MIN_ROWS, _LOOKED_AT_ELEMENTS * count // elements))
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:wanted]
    heights = peer.reshape(count, -1).abs().amax(dim=1)
    tall = heights.float().nan_to_num_(nan=0.0, posinf=0.0).topk(min(_TALL_ROWS, count)).indices
    rows = torch.unique(torch.cat([drawn, tall, torch.tensor([0, count - 1])]))
    return LargeExpectation(
        spec, arguments, carriers, peer.reshape(-1), tuple(peer.shape), peer.dtype, rows, tall, flushed
    )


def row_arguments(spec: OperatorSpec) -> tuple[str, ...]:
    """The arguments whose rows make the same rows of the output, or none where rows do not stand for
    themselves.

    Found out from the reference itself, in fp64: which arguments grow with the first of the operator's sizes,
    and whether some rows of them give the same rows of the output.
    """
    generator = torch.Generator().manual_seed(0)
    others = range(6, 6 + len(spec.dims) - 1)
    few, many = (
        spec.inputs(spec.workload(rows, *others, dtype=spec.dtypes[0]), generator, dtype=torch.float64)
        for rows in (4, 9)
    )
    carriers = []
    for name, value in many.items():
        if not isinstance(value, Tensor):
            continue
        if (
            value.ndim
            and (few[name].shape[0], value.shape[0]) == (4, 9)
            and few[name].shape[1:] == value.shape[1:]
        ):
            carriers.append(name)
        elif value.shape != few[name].shape:
            return ()
    out = spec.reference(**many)
    if not carriers or not out.ndim or out.shape[0] != 9:
        return ()
    rows = torch.tensor([0, 3, 4, 8])
    part = spec.reference(**select_rows(many, carriers, rows))
    alike = part.shape == out[rows].shape and torch.allclose(part, out[rows], rtol=1e-12, atol=0.0)
    return tuple(carriers) if alike else ()


def select_rows(arguments: Mapping[str, Any], carriers: Sequence[str], rows: Tensor) -> dict[str, Any]:
    """The same call on some rows of its inputs only."""
    return {name: value[rows] if name in carriers else value for name, value in arguments.items()}


def changed_rows(before: Mapping[str, Any], after: Mapping[str, Any], carriers: Sequence[str]) -> Tensor:
    """The rows in which any of these inputs differs in its bits, ascending."""
    changed = torch.zeros(0, dtype=torch.bool)
    for name in carriers:
        integers = INTEGERS[before[name].element_size()]
        old, new = (one[name].reshape(one[name].shape[0], -1).view(integers) for one in (before, after))
        differs = (old != new).any(dim=1)
        changed = differs if not changed.numel() else changed | differs
    return changed.nonzero().reshape(-1)
