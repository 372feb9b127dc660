"""The calls that a check makes: workloads, edge shapes and drawn shapes, under many kinds of contents."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelwright.errors import UnsupportedCallError
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeCallLike
from kernelwright.referee._large import expect_any
from kernelwright.referee._large import LargeExpectation
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._shared import SharedMemory

#: Outputs of at most this many elements get a second draw and a run on one thread.
_SMALL_ELEMENTS = 1 << 21
_DRAWN_SHAPES = 3
_ROW_PADDING = 13


@dataclass
class Case:
    """One call, ready in the store, with its expectation."""

    title: str
    call: NativeCallLike
    inputs: dict[str, int]
    expectation: Expectation | LargeExpectation
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    runs: int
    may_refuse: bool


@dataclass(frozen=True)
class _Recipe:
    """A call still to be made."""

    workload: Workload
    what: str
    scale: float = 1.0
    change: Callable[[dict[str, Any], OperatorSpec, torch.Generator], None] | None = None
    strided: tuple[str, ...] = ()
    flushed: bool = False
    layout: Callable[[Tensor], Tensor] | None = None


def make_cases(
    spec: OperatorSpec,
    describe: Describe,
    workloads: Sequence[Workload],
    *,
    seed: int,
    edge: bool,
    store: SharedMemory,
    not_called: list[str] | None = None,
) -> list[Case]:
    """All cases of a check, with their inputs put into `store`; what is drawn is drawn from `seed`.

    Layouts that `describe` says the kernel is never called with are listed in `not_called`, with its words.
    """
    draw = random.Random(seed)
    cases = []
    for recipe in _recipes(spec, workloads, draw, edge):
        try:
            cases.append(_make(spec, describe, recipe, draw.getrandbits(48), store))
        except UnsupportedCallError as error:
            if recipe.layout is None:
                raise
            if not_called is not None:
                not_called.append(f"{recipe.what}: {error}")
    return cases


def _recipes(
    spec: OperatorSpec, workloads: Sequence[Workload], draw: random.Random, edge: bool
) -> Iterator[_Recipe]:
    for dtype in dict.fromkeys(workload.dtype for workload in workloads):
        if edge:
            yield from _special(spec, dtype, draw)
            for shape in _drawn_shapes(spec, draw):
                yield _Recipe(spec.workload(*shape, dtype=dtype), "drawn shape", _drawn_scale(draw))
            for shape in spec.edge_shapes:
                yield _Recipe(spec.workload(*shape, dtype=dtype), "edge shape", _drawn_scale(draw))
    for workload in workloads:
        yield _Recipe(workload, "workload")
        if math.prod(workload.sizes.values()) <= _SMALL_ELEMENTS:
            yield _Recipe(workload, "workload", _drawn_scale(draw))


def _special(spec: OperatorSpec, dtype: torch.dtype, draw: random.Random) -> Iterator[_Recipe]:
    def shape() -> Workload:
        return spec.workload(
            *(
                draw.randint(6, 24) if index == 0 else draw.randint(40, 300)
                for index in range(len(spec.dims))
            ),
            dtype=dtype,
        )

    yield _Recipe(shape(), "plain")
    yield _Recipe(shape(), "zeros", change=_fill(0.0))
    yield _Recipe(shape(), "constant", change=_fill(draw.choice((-1, 1)) * draw.uniform(0.1, 8.0)))
    yield _Recipe(shape(), "cancellation", change=_cancel(draw.uniform(1.0, 8.0)))
    yield _Recipe(shape(), "large values", scale=draw.uniform(30.0, 100.0))
    yield _Recipe(shape(), "small values", scale=10.0 ** draw.uniform(-4.0, -2.0))
    yield _Recipe(shape(), "denormals", change=_denormal, flushed=True)
    for name, values in (
        ("+inf", [float("inf")]),
        ("-inf", [float("-inf")]),
        ("NaN", [float("nan")]),
        ("+inf, -inf and NaN", [float("inf"), float("-inf"), float("nan")]),
    ):
        yield _Recipe(shape(), f"a few {name}", change=_scatter(values))
    first = spec.tensors[0]
    yield _Recipe(shape(), "rows apart in the input", strided=(first,))
    yield _Recipe(shape(), "rows apart in input and output", strided=(first, "out"))
    yield _Recipe(shape(), "one row for all", change=_alike, layout=_one_row)
    yield _Recipe(shape(), "transposed input", layout=_transposed)


def _drawn_shapes(spec: OperatorSpec, draw: random.Random) -> Iterator[tuple[int, ...]]:
    for _ in range(_DRAWN_SHAPES):
        yield tuple(round(math.exp(draw.uniform(0.0, math.log(700)))) for _ in spec.dims)


def _drawn_scale(draw: random.Random) -> float:
    return float(10.0 ** draw.uniform(-1.5, 1.2))


def _fill(value: float) -> Callable[[dict[str, Any], OperatorSpec, torch.Generator], None]:
    def change(arguments: dict[str, Any], spec: OperatorSpec, generator: torch.Generator) -> None:
        arguments[spec.tensors[0]].fill_(value)

    return change


def _cancel(offset: float) -> Callable[[dict[str, Any], OperatorSpec, torch.Generator], None]:
    def change(arguments: dict[str, Any], spec: OperatorSpec, generator: torch.Generator) -> None:
        x = arguments[spec.tensors[0]]
        signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
        noise = torch.randn(x.shape, generator=generator) * 8 * torch.finfo(x.dtype).eps
        x.copy_(offset * signs * (1 + noise))

    return change


def _denormal(arguments: dict[str, Any], spec: OperatorSpec, generator: torch.Generator) -> None:
    x = arguments[spec.tensors[0]]
    x.copy_(
        torch.randn(x.shape, generator=generator, dtype=torch.float64)
        * 0.2
        * torch.finfo(x.dtype).smallest_normal
    )


def _alike(arguments: dict[str, Any], spec: OperatorSpec, generator: torch.Generator) -> None:
    x = arguments[spec.tensors[0]]
    x.copy_(x[:1].clone().expand(x.shape))


def _one_row(tensor: Tensor) -> Tensor:
    """All rows are the first one, which is there once."""
    return tensor[:1].clone().expand(tensor.shape)


def _transposed(tensor: Tensor) -> Tensor:
    """The same values, neighbours of the last dimension furthest apart."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def _scatter(values: Sequence[float]) -> Callable[[dict[str, Any], OperatorSpec, torch.Generator], None]:
    def change(arguments: dict[str, Any], spec: OperatorSpec, generator: torch.Generator) -> None:
        x = arguments[spec.tensors[0]].view(-1)
        places = torch.randperm(x.numel(), generator=generator)[: len(values)]
        x[places] = torch.tensor(values, dtype=x.dtype)

    return change


def _make(spec: OperatorSpec, describe: Describe, recipe: _Recipe, seed: int, store: SharedMemory) -> Case:
    generator = torch.Generator().manual_seed(seed)
    arguments = spec.inputs(recipe.workload, generator, scale=recipe.scale)
    if recipe.change is not None:
        recipe.change(arguments, spec, generator)
    expectation = expect_any(spec, arguments, flushed=recipe.flushed, seed=seed)
    out = torch.empty(expectation.shape, dtype=expectation.dtype)
    for name in recipe.strided:
        if name == "out":
            out = _apart(out)
        else:
            arguments[name] = _apart(arguments[name])
    if recipe.layout is not None:
        arguments[spec.tensors[0]] = recipe.layout(arguments[spec.tensors[0]])
    call = describe(arguments, out)
    inputs = {
        buffer.name: store.put(arguments[buffer.name], buffer.nbytes)
        for buffer in call.buffers
        if not buffer.output
    }
    title = f"{recipe.workload.name}, {recipe.what}, seed {seed}"
    if recipe.scale != 1.0:
        title += f", scale {recipe.scale:.3g}"
    small = expectation.elements <= _SMALL_ELEMENTS
    return Case(
        title,
        call,
        inputs,
        expectation,
        tuple(out.shape),
        tuple(out.stride()),
        out.dtype,
        3 if small else 2,
        bool(recipe.strided) or recipe.layout is not None,
    )


def _apart(tensor: Tensor) -> Tensor:
    """The same values with rows further apart, NaN between them."""
    wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + _ROW_PADDING), float("nan"), dtype=tensor.dtype)
    view = wide[..., : tensor.shape[-1]]
    return view.copy_(tensor)
