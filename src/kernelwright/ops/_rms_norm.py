"""Root-mean-square normalisation over the last dimension."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kernelwright.dispatch import dispatch
from kernelwright.dispatch import register_impl
from kernelwright.ops._spec import Cost
from kernelwright.ops._spec import OperatorSpec
from kernelwright.ops._spec import ROW_EDGE_SHAPES
from kernelwright.ops._spec import rows_of
from kernelwright.ops._spec import Workload


class RmsNormSpec(OperatorSpec):
    """y = x / sqrt(mean(x², last dimension) + eps) · weight (Zhang and Sennrich, arXiv:1910.07467)."""

    name = "rms_norm"
    dims = ("rows", "hidden")
    tensors = ("x", "weight")
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
        """x of (rows, hidden) and weight of (hidden,), normally distributed; weight around one."""
        rows, hidden = workload.sizes["rows"], workload.sizes["hidden"]
        dtype = dtype or workload.dtype
        x = torch.randn(rows, hidden, generator=generator) * scale
        weight = torch.randn(hidden, generator=generator) * 0.1 + 1.0
        return {"x": x.to(dtype), "weight": weight.to(dtype), "eps": 1e-6}

    def reference(self, x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:  # type: ignore[override]
        """As torch.nn.functional.rms_norm, the peer in the same dtype."""
        return F.rms_norm(x, (x.shape[-1],), weight, eps)

    def cost(self, workload: Workload) -> Cost:
        """x and weight read, y written; a multiply-add and two multiplies an element."""
        rows, hidden = workload.sizes["rows"], workload.sizes["hidden"]
        size = workload.dtype.itemsize
        return Cost((rows + 1) * hidden * size, rows * hidden * size, 4 * rows * hidden)

    def sizes_of(self, x: Any, **_: Any) -> dict[str, int]:  # type: ignore[override]
        """Leading dimensions are rows."""
        return {"rows": rows_of(x.shape), "hidden": x.shape[-1]}


@dispatch("rms_norm", spec=RmsNormSpec())
def rms_norm(x: Tensor, weight: Tensor, *, eps: float = 1e-6) -> Tensor:  # type: ignore[empty-body]
    """Root-mean-square normalisation over the last dimension.

    Args:
        x: (..., hidden), floating point.
        weight: (hidden,), in the dtype of x.
        eps: added to the mean square, so that a row of zeros stays finite.

    Returns:
        A tensor shaped as x, in its dtype.
    """


@register_impl("rms_norm", backend="torch", gradient=True)
def _rms_norm_torch(x: Tensor, weight: Tensor, *, eps: float = 1e-6, out: Tensor | None = None) -> Tensor:
    result = F.rms_norm(x, (x.shape[-1],), weight, eps)
    return result if out is None else out.copy_(result)
