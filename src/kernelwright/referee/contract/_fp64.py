"""A reference run in fp64, whatever it casts to on its way.

Most references convert: `x.float()`, results `.to(x.dtype)`, buffers of fp32. Run on fp64 inputs as they are,
they would round to what they convert to, and the result would be no oracle. So below the reference every
floating type of torch's arithmetic stands for fp64: casts to it, tensors made in it, constants that hold it.
Casts to integers and to eight-bit floats are meant (quantisation) and stay.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

#: What stands for fp64 while the oracle is computed.
SHORT = (torch.float32, torch.bfloat16, torch.float16)


class NoOracle(Exception):
    """The reference looks at the bits of a floating tensor, which mean something else in fp64."""


class _Promotion(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operator reached gets fp64 where it would get, or make, a shorter floating type."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not: keeping the compiler off this mode imports it, which takes seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.ops.aten.view.dtype:
            raise NoOracle("it views a floating tensor as another dtype")
        keywords = dict(kwargs or {})
        if func._schema.is_mutable:
            # A tensor that is written has to stay itself; it is fp64 unless it is a constant of the user's.
            return func(*_promoted(args, tensors=False), **_promoted(keywords, tensors=False))
        return func(*_promoted(args), **_promoted(keywords))


def _promoted(value: Any, *, tensors: bool = True) -> Any:
    def promote(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype) and leaf in SHORT:
            return torch.float64
        if tensors and isinstance(leaf, Tensor) and leaf.dtype in SHORT:
            return leaf.double()
        return leaf

    return tree_map(promote, value)


@contextlib.contextmanager
def promotion() -> Iterator[None]:
    """Within it, torch computes in fp64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Promotion():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(before)


def in_fp64(value: Any) -> Any:
    """A private copy of a tree with floating tensors in fp64, their strides and gradients asked for kept."""
    if isinstance(value, Tensor):
        made = duplicate(value, torch.float64 if value.dtype in SHORT else value.dtype)
        return made.requires_grad_(value.requires_grad)
    return _rebuilt(value, in_fp64)


def in_fp32(value: Any) -> Any:
    """The same in fp32, for references that cannot be run in fp64."""
    if isinstance(value, Tensor):
        short = value.dtype in (torch.bfloat16, torch.float16)
        return duplicate(value, torch.float32 if short else value.dtype).requires_grad_(value.requires_grad)
    return _rebuilt(value, in_fp32)


def private(value: Any) -> Any:
    """A private copy of a tree, strides and gradients asked for kept."""
    if isinstance(value, Tensor):
        return duplicate(value, value.dtype).requires_grad_(value.requires_grad)
    return _rebuilt(value, private)


def duplicate(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy in new memory with the same shape and strides, expanded dimensions too."""
    tensor = tensor.detach()
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype)
    memory = torch.as_strided(tensor, (span,), (1,)).to(dtype, copy=True)
    return torch.as_strided(memory, tensor.shape, tensor.stride())


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(change(item) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(change(item) for item in value)
    if isinstance(value, dict):
        return {key: change(item) for key, item in value.items()}
    return value


def doubled(module: torch.nn.Module) -> torch.nn.Module:
    """A copy of a module with its parameters and buffers in fp64."""
    return copy.deepcopy(module).double()
