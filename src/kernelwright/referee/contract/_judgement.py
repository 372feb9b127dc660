"""One call, judged: what came back, what became of its arguments, and what went on afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from kernelwright.referee._oracle import INTEGERS
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._diagnosis import Earlier
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._facts import CallResult
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._facts import TensorFact
from kernelwright.referee.contract._reference import Made

#: Tensors of more bytes than this are only compared bit by bit.
_NAMED = 1 << 26


class Past(Protocol):
    """Who knows what was returned earlier; see `History`."""

    def earlier(self, index: int) -> list[Earlier]:
        """The outputs of earlier calls at one place of the output, likeliest first."""


@dataclass(frozen=True)
class Terms:
    """What the contract leaves open for a call.

    `dense`: outputs may have their dimensions in any order in memory, for layouts that the user's inputs do
    not have. `shares`: outputs may lie in memory of inputs or of earlier outputs. `names` are those of the
    call's tensors, `share` is what the call has in common with earlier ones.
    """

    names: tuple[str, ...]
    dense: bool = False
    shares: bool = False
    share: str = ""


def judge_call(
    made: Made, result: CallResult, board: Board, nodes: Sequence[Node], terms: Terms, history: Past
) -> Fault | None:
    """The first fault of a call. `nodes` are its tensors in the performer's board, as they are now."""
    expected = made.expected
    fault = expected.form_fault(result.value)
    if fault is not None:
        return fault
    faults = (
        _written_outside(board, nodes, terms),
        _changed_inputs(made, board, nodes, terms),
        _layouts(made, result, terms),
        changed_later(made, result.tensors, result.settled or ()),
        _sharing(made, result, terms),
        _numbers(made, result, terms, history),
        _changed_arguments(made, board, nodes),
        _gradients(made, result),
    )
    found = [one for one in faults if one is not None]
    return min(found, key=lambda one: one.status is not Status.CHEATED, default=None)


def _written_outside(board: Board, nodes: Sequence[Node], terms: Terms) -> Fault | None:
    for name, node in zip(terms.names, nodes, strict=True):
        harm = board.harm(node)
        if harm:
            return Fault(Status.WRONG, f"wrote outside of its buffers: {harm} of {name}")
    return None


def _changed_inputs(made: Made, board: Board, nodes: Sequence[Node], terms: Terms) -> Fault | None:
    for index, (name, node, tensor) in enumerate(zip(terms.names, nodes, made.tensors, strict=True)):
        if index in made.expected.mutated or board.holds(node, tensor):
            continue
        now = board.copy(node)
        count = int((_bits(now) != _bits(tensor)).sum())
        return Fault(
            Status.WRONG,
            f"changed its input {name}: {count} of {tensor.numel()} elements are not as they were passed; an "
            f"argument may be changed only where MUTATES says so",
        )
    return None


def _layouts(made: Made, result: CallResult, terms: Terms) -> Fault | None:
    for leaf, fact in zip(made.expected.leaves, result.facts, strict=False):
        fault = leaf.layout_fault(fact, dense=terms.dense)
        if fault is not None:
            return fault
    return None


def changed_later(
    made: Made, tensors: Sequence[Tensor | None], settled: Sequence[Tensor | None]
) -> Fault | None:
    """Whether an output is another one a little later: then somebody still works on it."""
    for leaf, first, later in zip(made.expected.leaves, tensors, settled, strict=False):
        if first is None or later is None or first.shape != later.shape or first.dtype != later.dtype:
            continue
        count = int((_bits(first) != _bits(later)).sum())
        if count:
            done = leaf.shape == tuple(later.shape) and leaf.fault(later) is None
            end = "; only then it was right" if done and leaf.fault(first) is not None else ""
            return Fault(
                Status.CHEATED,
                f"{leaf.name} changed after the call had returned ({count} of {first.numel()} "
                f"elements{end}): work was left running in the background",
            )
    return None


def _sharing(made: Made, result: CallResult, terms: Terms) -> Fault | None:
    if terms.shares:
        return None
    for leaf, fact in zip(made.expected.leaves, result.facts, strict=False):
        text = _shared_with(fact, made, terms)
        if text is not None:
            return Fault(Status.WRONG, f"{leaf.name} {text}; a kernel returns memory of its own")
    return None


def _shared_with(fact: TensorFact, made: Made, terms: Terms) -> str | None:
    if fact.shares_input is not None:
        index = fact.shares_input
        if made.expected.shares_input or index in made.expected.mutated:
            return None
        name = terms.names[index] if 0 <= index < len(terms.names) else "another call"
        return f"shares storage with the input {name}"
    if fact.shares_earlier is not None:
        ago = f"{fact.shares_earlier} calls ago" if fact.shares_earlier != 1 else "of the call before"
        return f"shares storage with the output of an earlier call ({ago}), which it overwrites"
    if fact.shares_state is not None:
        return f"shares storage with the kernel's own {fact.shares_state}"
    return None


def _numbers(made: Made, result: CallResult, terms: Terms, history: Past) -> Fault | None:
    inputs = [(name, tensor) for name, tensor in zip(terms.names, made.tensors, strict=True)]
    for index, (leaf, got) in enumerate(zip(made.expected.leaves, result.tensors, strict=False)):
        if got is None:
            return Fault(Status.WRONG, f"{leaf.name} could not be read: {result.facts[index].problem}")
        if got.dtype != leaf.dtype or tuple(got.shape) != leaf.shape:
            continue  # Said as a fault of layout.
        fault = leaf.fault(got, inputs=inputs, earlier=history.earlier(index), share=terms.share)
        if fault is not None:
            return fault
    return None


def _changed_arguments(made: Made, board: Board, nodes: Sequence[Node]) -> Fault | None:
    """Whether the arguments that a call has to change hold what they should."""
    for index, leaf in made.expected.mutated.items():
        got = board.copy(nodes[index])
        fault = leaf.fault(got)
        if fault is not None:
            untouched = board.holds(nodes[index], made.tensors[index])
            text = f"{leaf.name}: was not changed at all, and MUTATES says that it is" if untouched else ""
            return Fault(fault.status, f"{text}; {fault.reason}" if text else fault.reason)
    return None


def _gradients(made: Made, result: CallResult) -> Fault | None:
    if made.grad_outputs is None:
        return None
    given = result.gradients or ()
    for index, leaf in enumerate(made.expected.gradients):
        got = given[index] if index < len(given) else None
        if leaf is None:
            continue
        if got is None:
            return Fault(Status.WRONG, f"{leaf.name} is missing: autograd found no way from the output to it")
        if tuple(got.shape) != leaf.shape or got.dtype != leaf.dtype:
            return Fault(
                Status.WRONG, f"{leaf.name} is {got.dtype} of {tuple(got.shape)}, not as its input is"
            )
        fault = leaf.fault(got)
        if fault is not None:
            return fault
    return None


def differing(one: Sequence[Tensor | None], other: Sequence[Tensor | None]) -> tuple[int, int]:
    """In how many elements of how many two sets of outputs differ, bit by bit."""
    count = total = 0
    for first, second in zip(one, other, strict=False):
        if first is None or second is None or first.shape != second.shape or first.dtype != second.dtype:
            continue
        total += first.numel()
        count += int((_bits(first) != _bits(second)).sum())
    return count, total


def _bits(tensor: Tensor) -> Tensor:
    """The elements as integers, so that NaN equals itself, in the tensor's shape."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])
