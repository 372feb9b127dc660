"""A given output: what it must look like, and that it shares no memory with an input.

An implementation may read an input after it wrote part of the output, so an output that overlaps an input is
refused, an identical one included. Addresses are not in the key of a plan; a plan with an output compares
them call by call, by extent first and exactly only if extents overlap (halves of one buffer side by side).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernelwright.dispatch._call import Call
from kernelwright.dispatch._call import TensorInfo
from kernelwright.dispatch._registry import Operator
from kernelwright.errors import UsageError


def check(operator: Operator, values: tuple[Any, ...], call: Call) -> None:
    """Raise UsageError unless `call.out` can hold the result.

    Shape and dtype are known where the operator has a spec: its reference runs on tensors without data.
    """
    out = call.out
    assert out is not None
    if call.wants_grad:
        raise UsageError(
            f"{operator.name}: out= has no gradient and one is wanted; use torch.no_grad() or leave out out="
        )
    if overlaps_itself(out):
        raise UsageError(
            f"{operator.name}: elements of out share a place (shape {out.shape}, strides {out.strides}); "
            "pass a dense tensor"
        )
    devices = {name: info.device for name, info in call.tensors.items() if info.device != out.device}
    if devices:
        name, device = next(iter(devices.items()))
        raise UsageError(f"{operator.name}: out is on {out.device}, {name} on {device}")
    expected = _result(operator, values, call)
    if expected is not None and (expected.shape != out.shape or expected.dtype != out.dtype):
        raise UsageError(
            f"{operator.name}: out must be {expected.dtype} of shape {tuple(expected.shape)}, "
            f"got {out.dtype} of shape {out.shape}"
        )


def guard(operator: Operator, call: Call, run: Callable[..., Any], *, bump: bool) -> Callable[..., Any]:
    """`run` for calls with an output: refuses overlap, and tells autograd of a write that `run` does not.

    Where `run` has an attribute `by_address`, that is called with the addresses that were just compared; it
    returns a status, of which `run.failed` makes an error unless it is zero.
    """
    assert call.out is not None
    out_span = call.out.span
    inputs = [name for name in operator.signature.names if name in call.tensors]
    by_address = getattr(run, "by_address", None)
    lines = ["    start = out.data_ptr()", f"    end = start + {out_span}"]
    for name in inputs:
        span = call.tensors[name].span
        lines.append(f"    at_{name} = {name}.data_ptr()")
        lines.append(f"    if at_{name} < end and start < at_{name} + {span}:")
        lines.append(f"        refuse_overlap({name!r}, {name}, out)")
    parameters = ", ".join([*operator.signature.names, "out"])
    if by_address is None:
        lines.append(f"    run({parameters})")
    else:
        lines.append(f"    status = by_address({', '.join(f'at_{name}' for name in inputs)}, start)")
        lines.append("    if status:")
        lines.append("        failed(status)")
    if bump:
        lines.append("    wrote((out,))")
    text = "\n".join([f"def plan({parameters}):", *lines, "    return out"]) + "\n"

    def refuse_overlap(name: str, tensor: Tensor, out: Tensor) -> None:
        if overlap(tensor, out):
            raise UsageError(
                f"{operator.name}: out shares memory with {name}, which is read while out is written; "
                "pass another out"
            )

    namespace: dict[str, Any] = {
        "run": run,
        "by_address": by_address,
        "failed": getattr(run, "failed", None),
        "refuse_overlap": refuse_overlap,
        "wrote": torch._C._increment_version,
    }
    exec(compile(text, f"<kernelwright out plan of {operator.name}>", "exec"), namespace)
    plan: Callable[..., Any] = namespace["plan"]
    return plan


def overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors share an element's bytes; True also where finding out would take too long."""
    if one.numel() == 0 or other.numel() == 0:
        return False
    import numpy as np

    class Extent:
        def __init__(self, tensor: Tensor) -> None:
            size = tensor.element_size()
            self.__array_interface__ = {
                "version": 3,
                "data": (tensor.data_ptr(), True),
                "typestr": f"|V{size}",
                "shape": tuple(tensor.shape),
                "strides": tuple(stride * size for stride in tensor.stride()),
            }

    try:
        # Reads addresses only, never the data; so it serves for any device.
        work: Any = 100_000
        return bool(np.shares_memory(np.asarray(Extent(one)), np.asarray(Extent(other)), max_work=work))
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(info: TensorInfo) -> bool:
    """Whether elements may share a place; True also for interleaved layouts, which no output needs."""
    if 0 in info.shape:
        return False
    reach = 0
    for stride, size in sorted(zip(info.strides, info.shape, strict=True)):
        if size == 1:
            continue
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _result(operator: Operator, values: tuple[Any, ...], call: Call) -> Tensor | None:
    """The result without data, or None where it cannot be known."""
    if operator.spec is None:
        return None
    arguments = dict(zip(operator.signature.names, values, strict=True))
    for name, info in call.tensors.items():
        if name not in arguments:
            return None  # a list of tensors
        arguments[name] = torch.empty_strided(info.shape, info.strides, dtype=info.dtype, device="meta")
    try:
        with torch.no_grad():
            result = operator.spec.reference(**arguments)
    except RuntimeError as error:
        shapes = ", ".join(f"{name} {info.shape} {info.dtype}" for name, info in call.tensors.items())
        raise UsageError(
            f"{operator.name}: these arguments do not fit together ({shapes}): {error}"
        ) from error
    return result if isinstance(result, Tensor) else None
