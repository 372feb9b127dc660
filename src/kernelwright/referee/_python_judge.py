"""Right or not, for tensors in this process: what a call returned against the oracle of its operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from kernelwright.ops import dtype_name
from kernelwright.ops import ErrorBudget
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._oracle import expectation


def consult(
    reference: Callable[..., Tensor], arguments: Mapping[str, Any], budget: ErrorBudget | None = None
) -> Expectation:
    """The expectation of a call: `reference` on fp64 copies of `arguments`, and on them for torch's error."""
    peer = reference(**arguments)
    oracle = reference(**{name: as_fp64(value) for name, value in arguments.items()})
    return expectation(oracle, peer, budget or ErrorBudget())


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


def as_fp64(value: Any) -> Any:
    """A floating tensor in fp64; anything else unchanged."""
    return value.detach().double() if isinstance(value, Tensor) and value.is_floating_point() else value
