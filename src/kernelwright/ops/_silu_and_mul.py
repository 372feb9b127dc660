"""SiLU of one half of the last dimension, times the other half."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kernelwright.dispatch import dispatch
from kernelwright.dispatch import register_impl
from kernelwright.errors import UsageError
from kernelwright.ops._spec import Cost
from kernelwright.ops._spec import OperatorSpec
from kernelwright.ops._spec import ROW_EDGE_SHAPES
from kernelwright.ops._spec import rows_of
from kernelwright.ops._spec import Workload


class SiluAndMulSpec(OperatorSpec):
    """y = silu(x[..., :I]) · x[..., I:], the gate of SwiGLU (Shazeer, arXiv:2002.05202)."""

    name = "silu_and_mul"
    dims = ("rows", "intermediate")
    tensors = ("x",)
    shapes = ((1, 11008), (32, 11008), (512, 11008), (4096, 11008))
    edge_shapes = ROW_EDGE_SHAPES

    def inputs(
        self,
        workload: Workload,
        generator: torch.Generator,
        *,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
    ) -> dict[str, Any]:
        """x of (rows, 2 · intermediate), normally distributed."""
        rows, width = workload.sizes["rows"], 2 * workload.sizes["intermediate"]
        x = torch.randn(rows, width, generator=generator) * scale
        return {"x": x.to(dtype or workload.dtype)}

    def reference(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """As written with torch.nn.functional.silu, the peer in the same dtype."""
        half = x.shape[-1] // 2
        return F.silu(x[..., :half]) * x[..., half:]

    def cost(self, workload: Workload) -> Cost:
        """x read, y written; an exponential counts as one FLOP of about five an element."""
        elements = workload.sizes["rows"] * workload.sizes["intermediate"]
        size = workload.dtype.itemsize
        return Cost(2 * elements * size, elements * size, 5 * elements)

    def sizes_of(self, x: Any, **_: Any) -> dict[str, int]:  # type: ignore[override]
        """Leading dimensions are rows."""
        return {"rows": rows_of(x.shape), "intermediate": x.shape[-1] // 2}


@dispatch("silu_and_mul", spec=SiluAndMulSpec())
def silu_and_mul(x: Tensor) -> Tensor:  # type: ignore[empty-body]
    """SiLU of the first half of the last dimension, times the second half.

    Args:
        x: (..., 2 · intermediate), floating point; the gate first, then the value.

    Returns:
        (..., intermediate), in the dtype of x.
    """


@register_impl("silu_and_mul", backend="torch", gradient=True)
def _silu_and_mul_torch(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    if not x.shape or x.shape[-1] % 2:
        raise UsageError(f"silu_and_mul: the last dimension of x must be even; x has shape {tuple(x.shape)}")
    half = x.shape[-1] // 2
    gate = F.silu(x[..., :half])
    value = x[..., half:]
    return gate * value if out is None else torch.mul(gate, value, out=out)
