"""What one call looks like to the implementations: tensors as values, scalars, output, gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

#: Tensor types that are plain memory; every other type has its own semantics, which only torch knows.
PLAIN_TYPES = (Tensor, Parameter)


@dataclass(frozen=True)
class TensorInfo:
    """A tensor without its data.

    `strides` are in elements; a contiguous tensor has those of its shape, also where a size of one would
    allow others. `requires_grad` is False where gradients are switched off. `device` is as torch writes it:
    `cpu`, `cuda:0`.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    requires_grad: bool

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie densely, the last dimension fastest."""
        return self.strides == dense_strides(self.shape) or 0 in self.shape

    @property
    def span(self) -> int:
        """Bytes from the first element to the end of the last one; zero when there is none."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.itemsize


@dataclass(frozen=True)
class Call:
    """One call, as predicates and `specialize` see it.

    Everything in here is part of the key of an exact plan, so that a decision made from it holds for every
    call with the same key. Tensors that were not given (None) are not in `tensors`.
    """

    operator: str
    tensors: Mapping[str, TensorInfo]
    scalars: Mapping[str, Any]
    out: TensorInfo | None
    wants_grad: bool


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor of this shape, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def tensor_info(tensor: Tensor, *, grad_enabled: bool) -> TensorInfo:
    """The value that stands for a strided tensor."""
    shape = tuple(tensor.shape)
    strides = dense_strides(shape) if tensor.is_contiguous() else tuple(tensor.stride())
    return TensorInfo(tensor.dtype, shape, strides, str(tensor.device), grad_enabled and tensor.requires_grad)
