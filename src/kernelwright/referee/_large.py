"""Large outputs of operators whose rows stand for themselves: exact on drawn rows, coarse on all.

The fp64 oracle of a large output takes seconds. Where each row of the output comes from the same row of the
inputs alone, the full rule is applied to a few hundred rows, the first, the last and others that nobody knew
beforehand; every element of the output is compared with torch's own in the same dtype, which may be as far
off as the rule lets both of them be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from kernelwright.ops import OperatorSpec
from kernelwright.referee._oracle import count_unwritten
from kernelwright.referee._oracle import expect
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._oracle import same_bits

_LARGE_ELEMENTS = 1 << 22
_LOOKED_AT_ELEMENTS = 1 << 20
_MIN_ROWS = 16
_CHUNK = 1 << 22
_REMEMBERED = 4


@dataclass
class LargeExpectation:
    """Torch's output in full, and the full expectation of the output's `rows`."""

    peer: Tensor
    rows: Tensor
    exact: Expectation
    shape: tuple[int, ...]
    dtype: torch.dtype
    _accepted: list[Tensor] = field(default_factory=list)

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return self.peer.numel()

    def fault(self, output: Tensor, *, unwritten: int | None = None) -> str | None:
        """What is wrong with `output`, with numbers, or None; see Expectation.fault."""
        if any(same_bits(output, known) for known in self._accepted):
            return None
        text = self._coarse(output.reshape(-1))
        if text is None:
            text = self.exact.fault(output[self.rows])
            if text is not None:
                text = f"among {len(self.rows)} drawn rows, {text}"
        elif unwritten is not None and (missing := count_unwritten(output, unwritten)):
            text = f"{missing}; {text}"
        if text is None and len(self._accepted) < _REMEMBERED:
            self._accepted.append(output.clone())
        return text

    def _coarse(self, flat: Tensor) -> str | None:
        allowed = (
            self.exact.limit + 2.0 * self.exact.peer_error + torch.finfo(self.dtype).eps * self.exact.scale
        )
        for start in range(0, flat.numel(), _CHUNK):
            got = flat[start : start + _CHUNK].float()
            error = (got - self.peer[start : start + _CHUNK].float()).abs_()
            if not float(error.max()) <= allowed:
                at = int(torch.nan_to_num(error, nan=float("inf")).argmax())
                row, column = divmod(start + at, flat.numel() // self.shape[0])
                return (
                    f"element {column} of row {row} is {float(got[at]):.6g}, torch has "
                    f"{float(self.peer[start + at]):.6g}: they are further apart than {allowed:.3g}"
                )
        return None


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
    rows = torch.unique(torch.cat([drawn, torch.tensor([0, count - 1])]))
    exact = expect(spec, _select(arguments, carriers, rows), flushed=flushed)
    return LargeExpectation(peer.reshape(-1), rows, exact, tuple(peer.shape), peer.dtype)


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
    part = spec.reference(**_select(many, carriers, rows))
    alike = part.shape == out[rows].shape and torch.allclose(part, out[rows], rtol=1e-12, atol=0.0)
    return tuple(carriers) if alike else ()


def _select(arguments: Mapping[str, Any], carriers: Any, rows: Tensor) -> dict[str, Any]:
    return {name: value[rows] if name in carriers else value for name, value in arguments.items()}
