"""What contests run on: a few input groups of a workload in the store, and what their outputs have to be."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kernelwright.errors import UsageError
from kernelwright.kernels.cpu import CallBlock
from kernelwright.kernels.cpu import DTYPE_CODES
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.referee._cases import Case
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeCallLike
from kernelwright.referee._large import changed_rows
from kernelwright.referee._large import expect_any
from kernelwright.referee._large import LargeExpectation
from kernelwright.referee._large import row_arguments
from kernelwright.referee._large import select_rows
from kernelwright.referee._layout import POISON
from kernelwright.referee._oracle import count_unwritten
from kernelwright.referee._oracle import expect
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._shared import SharedMemory

#: Inputs up to this size are varied for every buffer set, and each judged call gets an oracle of its own;
#: above it, sets share the contents of their group, whose oracle is kept.
_VARIED_BYTES = 8 << 20
_GROUPS = 4
_LARGE_GROUPS = 2
_HUGE_BYTES = 96 << 20
#: Of an output that is not looked at in full, so many rows, and rows with so many elements, are drawn.
_ASKED_ROWS = 16
_ASKED_ELEMENTS = 1 << 15
#: Which bits of a 64-bit word of each dtype may be flipped: the last bit of 16-bit floats, the last eight of
#: fp32.
_VARIABLE_BITS = {
    torch.bfloat16: 0x0001_0001_0001_0001,
    torch.float16: 0x0001_0001_0001_0001,
    torch.float32: 0x0000_00FF_0000_00FF,
}


@dataclass
class Group:
    """One draw of a workload's inputs: arguments here, bytes in the store."""

    arguments: dict[str, Any]
    sources: dict[str, int]
    expectation: Expectation | LargeExpectation | None = None


@dataclass
class RaceData:
    """The groups of one workload and how its native call looks."""

    spec: OperatorSpec
    workload: Workload
    call: NativeCallLike
    shape: tuple[int, ...]
    dtype: torch.dtype
    groups: list[Group]
    varied: bool

    @cached_property
    def carriers(self) -> tuple[str, ...]:
        """The inputs whose rows stand for themselves; none where an output's row needs more than its own."""
        return row_arguments(self.spec)

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return int(torch.Size(self.shape).numel())

    def vary(self, name: str) -> int:
        """The bits of an input that may be flipped from set to set."""
        value = self.groups[0].arguments[name]
        return _VARIABLE_BITS.get(value.dtype, 0) if self.varied else 0

    def item(self, name: str) -> int:
        """The bytes of an element of an input that may be replaced by another of it; 0 where none may.

        Only floating tensors: an index may have a meaning beyond its value. Of inputs that share an oracle,
        those whose rows stand for themselves, so that few rows need another one.
        """
        value = self.groups[0].arguments[name]
        if not value.dtype.is_floating_point:
            return 0
        carriers = () if self.varied else self.carriers
        return int(value.dtype.itemsize) if not carriers or name in carriers else 0

    def fault(
        self,
        group: int,
        inputs: Mapping[str, Tensor],
        output: Tensor,
        *,
        draw: random.Random | None = None,
    ) -> str | None:
        """What is wrong with the output of a call on these inputs (flat bytes, as given to the kernel).

        With `draw`, where rows stand for themselves, the oracle is asked for some that are drawn now; all of
        the output must have been written.
        """
        base = self.groups[group].arguments
        exact = {
            name: inputs[name].view(value.dtype).reshape(value.shape) if name in inputs else value
            for name, value in base.items()
        }
        output = output.reshape(self.shape)
        if draw is not None and self.elements > _ASKED_ELEMENTS and self.carriers:
            unwritten = count_unwritten(output, POISON[0])
            if unwritten:
                return unwritten
            wanted = min(max(_ASKED_ROWS, _ASKED_ELEMENTS * self.shape[0] // self.elements), self.shape[0])
            rows = torch.tensor(sorted(draw.sample(range(self.shape[0]), wanted)))
            asked = select_rows(exact, self.carriers, rows)
            return expect(self.spec, asked).fault(output[rows], row_numbers=rows)
        if self.varied:
            return expect(self.spec, exact).fault(output, unwritten=POISON[0])
        return self._large_fault(self.groups[group], exact, output)

    def cases(self, count: int) -> list[Case]:
        """The workload's call on the contents of its groups, each to be made once."""
        made = []
        for number, group in enumerate(self.groups[:count]):
            expectation = expect_any(self.spec, group.arguments, seed=secrets.randbits(32))
            strides = tuple(torch.empty(self.shape, device="meta").stride())
            title = f"{self.workload.name}, contents {number}"
            made.append(
                Case(title, self.call, group.sources, expectation, self.shape, strides, self.dtype, 1, False)
            )
        return made

    def _large_fault(self, group: Group, exact: Mapping[str, Any], output: Tensor) -> str | None:
        """Rows with replaced elements get an oracle of their own, the others that of their group."""
        if group.expectation is None:
            group.expectation = expect_any(self.spec, group.arguments, seed=secrets.randbits(32))
        known = group.expectation
        if not isinstance(known, LargeExpectation):
            return expect(self.spec, exact).fault(output, unwritten=POISON[0])
        rows = changed_rows(group.arguments, exact, known.carriers)
        if rows.numel():
            text = expect(self.spec, select_rows(exact, known.carriers, rows)).fault(
                output[rows], row_numbers=rows
            )
            if text is not None:
                return text
            output = output.clone()
            output[rows] = known.peer.reshape(self.shape)[rows]
        return known.fault(output, unwritten=POISON[0])


def make_race_data(
    spec: OperatorSpec, describe: Describe, workload: Workload, *, seed: int, store: SharedMemory
) -> RaceData:
    """Draw the groups of a workload and put them into `store`."""
    draw = random.Random(seed)
    groups: list[Group] = []
    call: NativeCallLike | None = None
    shape: tuple[int, ...] = ()
    wanted = _GROUPS
    varied = True
    while len(groups) < wanted:
        generator = torch.Generator().manual_seed(draw.getrandbits(48))
        arguments = spec.inputs(workload, generator)
        if call is None:
            shape = spec_output_shape(spec, arguments)
            call = describe(arguments, torch.empty(shape, dtype=workload.dtype))
            nbytes = sum(buffer.nbytes for buffer in call.buffers if not buffer.output)
            varied = nbytes <= _VARIED_BYTES
            wanted = _GROUPS if varied else (1 if nbytes > _HUGE_BYTES else _LARGE_GROUPS)
        sources = {
            buffer.name: store.put(arguments[buffer.name], buffer.nbytes)
            for buffer in call.buffers
            if not buffer.output
        }
        groups.append(Group(arguments, sources))
    assert call is not None
    return RaceData(spec, workload, call, shape, workload.dtype, groups, varied)


def spec_output_shape(spec: OperatorSpec, arguments: dict[str, Any]) -> tuple[int, ...]:
    """The shape of the reference's output, found without computing it."""
    meta = {
        name: torch.empty_like(value, device="meta") if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }
    return tuple(spec.reference(**meta).shape)


def contents_of(call: NativeCallLike, index: int, inputs: Mapping[str, Tensor] | None) -> Tensor:
    """What buffer `index` of a call holds: the tensor given for its name, or random numbers of its dtype."""
    buffer = call.buffers[index]
    if inputs is not None and buffer.name in inputs:
        given = inputs[buffer.name].contiguous()
        if given.nbytes < buffer.nbytes:
            raise UsageError(f"buffer {buffer.name} has {buffer.nbytes} bytes; got {given.nbytes}")
        return given
    code = CallBlock.from_buffer_copy(call.block).tensor[index].dtype
    dtype = next(one for one, known in DTYPE_CODES.items() if known == code)
    generator = torch.Generator().manual_seed(index)
    return torch.randn(buffer.nbytes // dtype.itemsize + 1, generator=generator).to(dtype)
