"""Softmax over the last dimension."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernelwright.dispatch import dispatch
from kernelwright.dispatch import register_impl
from kernelwright.ops._spec import Cost
from kernelwright.ops._spec import OperatorSpec
from kernelwright.ops._spec import ROW_EDGE_SHAPES
from kernelwright.ops._spec import rows_of
from kernelwright.ops._spec import Workload


class SoftmaxSpec(OperatorSpec):
    """y = exp(x − max(x)) / Σ exp(x − max(x)), over the last dimension."""

    name = "softmax"
    dims = ("rows", "hidden")
    tensors = ("x",)
    shapes = ((1, 4096), (32, 4096), (512, 4096), (4096, 4096))
    edge_shapes = ROW_EDGE_SHAPES

    def inputs(
        self,
        workload: Workload,
        generator: torch.Generator,
        *,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
    ) -> dict[str, Any]:
        """x of (rows, hidden), normally distributed logits with a deviation of 2."""
        rows, hidden = workload.sizes["rows"], workload.sizes["hidden"]
        x = torch.randn(rows, hidden, generator=generator) * (2.0 * scale)
        return {"x": x.to(dtype or workload.dtype)}

    def reference(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """As torch.softmax, the peer in the same dtype."""
        return torch.softmax(x, dim=-1)

    def cost(self, workload: Workload) -> Cost:
        """x read, y written; an exponential counts as one FLOP of about five an element."""
        elements = workload.sizes["rows"] * workload.sizes["hidden"]
        size = workload.dtype.itemsize
        return Cost(elements * size, elements * size, 5 * elements)

    def sizes_of(self, x: Any, **_: Any) -> dict[str, int]:  # type: ignore[override]
        """Leading dimensions are rows."""
        return {"rows": rows_of(x.shape), "hidden": x.shape[-1]}


@dispatch("softmax", spec=SoftmaxSpec())
def softmax(x: Tensor) -> Tensor:  # type: ignore[empty-body]
    """Softmax over the last dimension.

    Args:
        x: (..., hidden), floating point.

    Returns:
        A tensor shaped as x, in its dtype, whose rows sum to one.
    """


@register_impl("softmax", backend="torch", gradient=True)
def _softmax_torch(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    if out is None:
        return torch.softmax(x, dim=-1)
    return torch.softmax(x, dim=-1, out=out)
