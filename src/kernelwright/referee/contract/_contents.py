"""Other contents, shapes and layouts for the inputs of a call, made from those that `get_inputs()` returned.

All functions take a list of arguments and return a new list; what they do not change they hand on. They draw
from a generator of their own, so that one description of a call always means the same call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernelwright.referee.contract._fp64 import duplicate

_ROW_PADDING = 13
Arguments = list[Any]


def changed(inputs: Sequence[Any], change: Mapping[str, Any], generator: torch.Generator) -> Arguments:
    """The inputs after one change: `kind` names it, `which` the tensors it is for."""
    kind = _KINDS[change["kind"]]
    chosen = _chosen(inputs, change.get("which", "all"), exact=change["kind"] in ("twin", "swap", "coarse"))
    result = list(inputs)
    for index in chosen:
        x = inputs[index].detach()
        made = like(kind(x, change, generator), x)
        result[index] = made.requires_grad_(inputs[index].requires_grad)
    return result


def like(values: Tensor, x: Tensor) -> Tensor:
    """The values with the strides of `x`, unless elements of `x` share memory."""
    shared = any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride(), strict=True))
    if values.stride() == x.stride() or shared:
        return values
    return duplicate(x, x.dtype).copy_(values)


def _chosen(inputs: Sequence[Any], which: str | int, *, exact: bool) -> list[int]:
    """Indices of the tensors that a change is for: floating ones, or with `exact` any if none is floating."""
    tensors = [index for index, value in enumerate(inputs) if isinstance(value, Tensor) and value.numel()]
    floating = [index for index in tensors if inputs[index].is_floating_point()]
    if exact and not floating:
        floating = tensors
    if isinstance(which, int):
        return [index for index in floating if index == which]
    return {"all": floating, "first": floating[:1], "last": floating[-1:]}[which]


def _scale(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    return (x.double() * float(change["by"])).to(x.dtype)


def _shift(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    return (x.double() + float(change["by"]) * spread(x)).to(x.dtype)


def _fill(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    return torch.full_like(x, change["value"])


def _denormals(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    drawn = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    return (drawn * 0.2 * torch.finfo(x.dtype).smallest_normal).to(x.dtype)


def _scatter(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    values = [float(value) for value in change["values"]]
    flat = x.contiguous().reshape(-1).clone()
    places = torch.randperm(flat.numel(), generator=generator)[: len(values)]
    flat[places] = torch.tensor(values[: len(places)], dtype=torch.float64).to(x.dtype)
    return flat.view(x.shape)


def _cancel(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    """Values of one size and either sign, a few units of the last place apart: sums cancel."""
    signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
    noise = torch.randn(x.shape, generator=generator) * (8 * torch.finfo(x.dtype).eps)
    return (signs * (1 + noise) * (float(change["by"]) * spread(x))).to(x.dtype)


def _noise(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    """Every element another one, of the same sign and about the same size: domains are kept."""
    factor = torch.empty(x.shape, dtype=torch.float64).uniform_(0.5, 1.5, generator=generator)
    return (x.double() * factor).to(x.dtype)


def _twin(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    """A few elements of the interior replaced by others of their size, the rest the same bit by bit."""
    flat = x.contiguous().reshape(-1).clone()
    places = interior(tuple(x.shape), generator, int(change.get("count", 5)))
    if len(places) == 0:
        return x
    for place in places.tolist():
        donor = int(torch.randint(flat.numel(), (1,), generator=generator))
        if x.is_floating_point():
            value = float(flat[donor]) * 1.5 + 0.75 * spread(x)
            flat[place] = -value if bool(torch.rand(1, generator=generator) < 0.5) and value > 0 else value
        else:
            flat[place] = flat[donor].clone()
    return flat.view(x.shape)


def _coarse(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    """Multiples of a power of two near a 16th of the size, 8 times as large at most: sums come out exact."""
    if not x.is_floating_point():
        return x
    unit = 2.0 ** (math.floor(math.log2(spread(x))) - 4)
    return (x.double() / unit).round().clamp(-128, 128).mul(unit).to(x.dtype)


def _swap(x: Tensor, change: Mapping[str, Any], generator: torch.Generator) -> Tensor:
    """Two elements of the interior exchanged: sums and norms of the tensor stay as they are."""
    flat = x.contiguous().reshape(-1).clone()
    places = interior(tuple(x.shape), generator, 64).tolist()
    for other in places[1:]:
        if bool(flat[places[0]] != flat[other]):
            flat[[places[0], other]] = flat[[other, places[0]]]
            break
    return flat.view(x.shape)


_KINDS: Mapping[str, Callable[[Tensor, Mapping[str, Any], torch.Generator], Tensor]] = {
    "scale": _scale,
    "shift": _shift,
    "fill": _fill,
    "denormals": _denormals,
    "scatter": _scatter,
    "cancel": _cancel,
    "noise": _noise,
    "twin": _twin,
    "swap": _swap,
    "coarse": _coarse,
}


def interior(shape: tuple[int, ...], generator: torch.Generator, count: int) -> Tensor:
    """Up to `count` flat indices that are on no face of the tensor: no first or last of any dimension.

    Dimensions of fewer than three elements have no interior and do not count; a tensor of at most two
    elements has none at all.
    """
    if math.prod(shape) < 3:
        return torch.empty(0, dtype=torch.int64)
    drawn = torch.zeros(min(4 * count, 1 << 16), dtype=torch.int64)
    for size in shape:
        low, high = (1, size - 1) if size >= 3 else (0, size)
        drawn = drawn * size + torch.randint(low, high, drawn.shape, generator=generator)
    places: Tensor = torch.unique(drawn)
    return places[torch.randperm(len(places), generator=generator)][:count]


def spread(x: Tensor) -> float:
    """Root mean square of the finite elements; 1 where that says nothing."""
    finite = x[torch.isfinite(x)] if x.is_floating_point() else x
    if finite.numel() == 0:
        return 1.0
    size = float(torch.linalg.vector_norm(finite.double())) / float(finite.numel()) ** 0.5
    return size if 0 < size < float("inf") else 1.0


def leading_groups(inputs: Sequence[Any]) -> list[list[int]]:
    """Sets of tensors that may share the leading dimension, likeliest first: those to try on the reference.

    The first tensor is always among them. Where it has one row, other tensors of one row may be anything (a
    weight, a mask), so only those of its very shape go with it.
    """
    tensors = [index for index, value in enumerate(inputs) if isinstance(value, Tensor) and value.ndim > 0]
    if not tensors or inputs[tensors[0]].shape[0] == 0:
        return []
    first = inputs[tensors[0]]
    shaped = [index for index in tensors if inputs[index].shape == first.shape]
    if first.shape[0] == 1:
        return [shaped]
    together = [index for index in tensors if inputs[index].shape[0] == first.shape[0]]
    groups = [together, shaped, tensors[:1]]
    return [group for place, group in enumerate(groups) if group not in groups[:place]]


def with_leading(
    inputs: Sequence[Any], group: Sequence[int], rows: int, generator: torch.Generator
) -> Arguments:
    """The inputs with `rows` as leading dimension of a group: rows drawn from those there are, the floating
    ones with noise of their own; integers keep the values that get_inputs() gave them."""
    result = list(inputs)
    for index in group:
        x = inputs[index].detach()
        drawn = torch.randint(x.shape[0], (rows,), generator=generator)
        taken = x.index_select(0, drawn)
        if x.is_floating_point():
            taken = _noise(taken, {}, generator)
        result[index] = taken.requires_grad_(inputs[index].requires_grad)
    return result


def laid_out(inputs: Sequence[Any], layout: str, which: str | int) -> Arguments | None:
    """The same values in another layout, or None where no tensor can have it.

    `padded`: rows further apart. `transposed`: memory in the opposite order of the last two dimensions.
    `expanded`: the first row for all rows, stride zero (this changes the values).
    """
    result = list(inputs)
    applied = False
    for index in _chosen(inputs, which, exact=False):
        made = _LAYOUTS[layout](inputs[index].detach())
        if made is not None:
            result[index] = made.requires_grad_(inputs[index].requires_grad)
            applied = True
    return result if applied else None


def _padded(x: Tensor) -> Tensor | None:
    if x.ndim < 2 or x.shape[-2] < 2:
        return None
    wide = torch.full((*x.shape[:-1], x.shape[-1] + _ROW_PADDING), float("nan"), dtype=x.dtype)
    rows: Tensor = wide[..., : x.shape[-1]]
    return rows.copy_(x)


def _transposed(x: Tensor) -> Tensor | None:
    if x.ndim < 2 or min(x.shape[-2:]) < 2:
        return None
    return duplicate(x.transpose(-1, -2).contiguous().transpose(-1, -2), x.dtype)


def _expanded(x: Tensor) -> Tensor | None:
    if x.ndim < 2 or x.shape[0] < 2:
        return None
    return x[:1].clone().expand(x.shape)


_LAYOUTS: Mapping[str, Callable[[Tensor], Tensor | None]] = {
    "padded": _padded,
    "transposed": _transposed,
    "expanded": _expanded,
}
