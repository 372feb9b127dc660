"""Right or not, for tensors in this process: what a call returned against the oracle of its operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from torch import Tensor

from kernelwright.ops import dtype_name
from kernelwright.referee._oracle import Expectation


def loosened(expected: Expectation, slack: float) -> Expectation:
    """The same with `slack` times the tolerance: for peers, whose rounding is theirs to choose."""
    return dataclasses.replace(
        expected, limit=slack * expected.limit, l2_limit=slack * expected.l2_limit, _accepted=[]
    )


def fault(output: object, expected: Expectation) -> str | None:
    """What is wrong with what a call returned, type, dtype and shape included; None when nothing is."""
    if type(output) is not Tensor:
        return f"the output is a {type(output).__name__}, not a torch.Tensor"
    if output.dtype != expected.dtype:
        return f"the output is {dtype_name(output.dtype)}, expected {dtype_name(expected.dtype)}"
    if tuple(output.shape) != expected.shape:
        return f"the output has shape {tuple(output.shape)}, expected {expected.shape}"
    if output.device != expected.peer.device:
        return f"the output is on {output.device}, expected {expected.peer.device}"
    return expected.fault(output.detach())


def misplaced(output: Tensor, given: Tensor | None, inputs: Mapping[str, Tensor]) -> str | None:
    """What is wrong with where an output lies: not in `given` where that is the output asked for, else in the
    memory of an input, where a later write would change it; None when nothing is."""
    if given is not None:
        return None if output.data_ptr() == given.data_ptr() else "the output is not in the memory of out="
    for name, tensor in inputs.items():
        if share_memory(output, tensor):
            return f"the output shares memory with the input {name}"
    return None


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are views of one piece of memory."""
    address: int = one.untyped_storage().data_ptr()
    return address != 0 and address == other.untyped_storage().data_ptr()
