"""How each operator's arguments are laid out for its native kernel."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import cast

from kernelwright.dispatch import Call
from kernelwright.dispatch import dense_strides
from kernelwright.dispatch import TensorInfo
from kernelwright.kernels.cpu._abi import as_rows
from kernelwright.kernels.cpu._abi import DTYPE_CODES
from kernelwright.kernels.cpu._abi import View


@dataclass(frozen=True)
class Layout:
    """A call as its kernel takes it: views in buffer order (the output last), scalars, the output's shape."""

    views: tuple[View, ...]
    scalars: tuple[float, ...]
    shape: tuple[int, ...]


#: Gives the layout of a call, or the reason why the native kernel does not take it.
Planner = Callable[[Call], "Layout | str"]


def _rows(name: str, info: TensorInfo) -> View | str:
    if info.dtype not in DTYPE_CODES:
        return f"{name} is {info.dtype}; native kernels take float32, bfloat16 and float16"
    view = as_rows(info.dtype, info.shape, info.strides)
    if view is None:
        return (
            f"{name} of shape {tuple(info.shape)} and strides {tuple(info.strides)} is not a set of rows "
            "with a dense last dimension and one row stride"
        )
    return view


def _output(call: Call, shape: tuple[int, ...]) -> View | str:
    """The output as rows: `out=` where given, else the contiguous tensor that is allocated."""
    x = call.tensors["x"]
    info = call.out or TensorInfo(x.dtype, shape, dense_strides(shape), x.device, False)
    view = _rows("out", info)
    if isinstance(view, View) and view.sizes[0] > 1 and view.strides[0] < view.sizes[1]:
        return "rows of out overlap"
    return view


def _plan_rms_norm(call: Call) -> Layout | str:
    x, weight = call.tensors["x"], call.tensors["weight"]
    if weight.dtype != x.dtype:
        return f"weight is {weight.dtype} and x is {x.dtype}; the native kernel takes one dtype"
    if tuple(weight.shape) != tuple(x.shape[-1:]):
        return f"weight has shape {tuple(weight.shape)}; the last dimension of x is {tuple(x.shape[-1:])}"
    dense = weight.strides == (1,) or weight.shape[0] <= 1
    row = (
        View(weight.dtype, weight.shape, (1,)) if dense else f"weight has stride {weight.strides[0]}, not one"
    )
    return _layout(call, [_rows("x", x), row], tuple(x.shape), (float(call.scalars["eps"]),))


def _plan_softmax(call: Call) -> Layout | str:
    x = call.tensors["x"]
    return _layout(call, [_rows("x", x)], tuple(x.shape))


def _plan_silu_and_mul(call: Call) -> Layout | str:
    x = call.tensors["x"]
    if not x.shape or x.shape[-1] % 2:
        return f"the last dimension of x must be even; x has shape {tuple(x.shape)}"
    return _layout(call, [_rows("x", x)], (*x.shape[:-1], x.shape[-1] // 2))


def _layout(
    call: Call, inputs: list[View | str], shape: tuple[int, ...], scalars: tuple[float, ...] = ()
) -> Layout | str:
    views = [*inputs, _output(call, shape)]
    for view in views:
        if isinstance(view, str):
            return view
    return Layout(tuple(cast("list[View]", views)), scalars, shape)


#: Tensors in buffer order, and scalars with their defaults: the operator's parameters, in its own order.
TENSORS: Mapping[str, tuple[str, ...]] = {
    "rms_norm": ("x", "weight"),
    "softmax": ("x",),
    "silu_and_mul": ("x",),
}
SCALARS: Mapping[str, Mapping[str, Any]] = {"rms_norm": {"eps": 1e-6}, "softmax": {}, "silu_and_mul": {}}

PLANNERS: Mapping[str, Planner] = {
    "rms_norm": _plan_rms_norm,
    "softmax": _plan_softmax,
    "silu_and_mul": _plan_silu_and_mul,
}
