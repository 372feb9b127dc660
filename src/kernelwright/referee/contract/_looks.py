"""Looks into timed calls: outputs of blocks that were on the clock, judged against their own contents.

Which calls are looked at is drawn after the block has ended, the last one always among them: what is still
being computed then shows. Outputs are copied at once; they are judged when nobody is timed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kernelwright.referee._oracle import same_bits
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract._diagnosis import Earlier
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._expect import ExpectedCall
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import Refusal
from kernelwright.referee.contract._slots import nodes_of
from kernelwright.referee.contract._slots import Slots
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._stage import Taken

#: Calls looked at in a block beside the last one, and how many bytes of outputs all of them may have.
_CALLS = 3
_BYTES = 64 << 20
#: Outputs that are kept to recognise one that comes again: so many, of so many bytes at most.
_REMEMBERED, _REMEMBERED_BYTES = 32, 1 << 20
#: How many renewals back what a place held is kept, to recognise a result of then.
_BEFORE = 6


@dataclass(frozen=True)
class Look:
    """One timed call: what it was given, what its place held before that (latest first), what came back, what
    became of its arguments."""

    call: int
    inputs: tuple[Tensor, ...]
    before: tuple[tuple[Tensor, ...], ...]
    taken: Taken
    after: tuple[Tensor, ...] | None
    changed: str | None


class Looks:
    """Takes looks at blocks of a candidate and judges them; `judged` counts those that were found right.

    `names` are those of the calls' tensors, `draws` what the slots were filled from. `mutates`: calls change
    their arguments, so that these are judged as outputs are. `only_last`: outputs may share their memory, so
    that only the last one is whole.
    """

    def __init__(
        self,
        reference: Reference,
        workload: str,
        names: Sequence[str],
        performer: Performer,
        slots: Slots,
        draws: Sequence[Made],
        *,
        output_bytes: int,
        seed: int,
        mutates: bool,
        only_last: bool,
    ) -> None:
        self._reference = reference
        self._workload = workload
        self._names = tuple(names)
        self._performer = performer
        self._slots = slots
        self._draws = tuple(draws)
        self._room = 2 * output_bytes + (1 << 20)
        self._random = random.Random(seed)
        self._mutates = mutates
        self._calls = 0 if only_last else max(0, min(_CALLS, _BYTES // max(output_bytes, 1) - 1))
        self._open: list[Look] = []
        self._outputs: deque[tuple[str, tuple[Tensor | None, ...]]] = deque(maxlen=_REMEMBERED)
        self.judged = 0

    def take(self, order: Sequence[int]) -> None:
        """Copy outputs of the block that has just ended; `order` has the slot of each call."""
        last = len(order) - 1
        calls = sorted({last, *self._random.sample(range(last + 1), min(self._calls, last + 1))})
        if self._mutates or len(calls) == 1:
            # Each set was used once, or there is one call: nothing else would say more.
            calls = calls[-2:]
        taken = self._performer.collect(calls, room=self._room * len(calls))
        for call, one in zip(calls, taken, strict=True):
            slot = order[call]
            self._open.append(
                Look(
                    call,
                    self._slots.contents(slot),
                    self._before(slot),
                    one,
                    self._after(slot) if self._mutates else None,
                    None if self._mutates else self._slots.changed(slot, self._names),
                )
            )

    def _before(self, slot: int) -> tuple[tuple[Tensor, ...], ...]:
        found: list[tuple[Tensor, ...]] = []
        if sum(one.nbytes for one in self._draws[0].tensors) > _REMEMBERED_BYTES:
            return ()
        try:
            for ago in range(1, 1 + _BEFORE):
                found.append(self._slots.contents(slot, renewals_ago=ago))
        except LookupError:
            pass  # It was written anew then.
        return tuple(found)

    def _after(self, slot: int) -> tuple[Tensor, ...]:
        board = self._performer.board
        return tuple(board.copy(node) for node in nodes_of(self._slots.arguments[slot]))

    def judge(self) -> tuple[Fault, Look] | None:
        """Judge what was taken; the first fault with its call, or None."""
        looks, self._open = self._open, []
        made = [None if look.changed else self.expected(look.inputs) for look in looks]
        for index, look in enumerate(looks):
            fault = self._fault(look, made[index])
            if fault is None:
                self._remember(look)
            else:
                others = [(one.call, want) for one, want in zip(looks, made, strict=True) if one is not look]
                for one in looks:
                    if one is not look:
                        self._remember(one)
                return self._named(fault, look, made[index], others), look
        return None

    def _remember(self, look: Look) -> None:
        if sum(one.nbytes for one in look.taken.tensors if one is not None) <= _REMEMBERED_BYTES:
            self._outputs.append(
                (f"another timed call (number {look.call} of its block)", look.taken.tensors)
            )

    def expected(self, inputs: Sequence[Tensor]) -> Made | None:
        """What has to come of a call with these inputs; None where the reference does not take them."""
        for draw in self._draws:
            if all(_equal_bits(one, other) for one, other in zip(inputs, draw.tensors, strict=True)):
                return draw
        made = self._reference.answer(self._workload, self._slots.arguments[0], inputs)
        return None if isinstance(made, Refusal) else made

    def _fault(self, look: Look, made: Made | None) -> Fault | None:
        if look.changed:
            return Fault(Status.WRONG, f"{look.changed} in a timed call")
        if made is None:
            return None
        fault = output_fault(made.expected, look.taken, look.after)
        self.judged += fault is None
        return fault

    def _named(
        self, fault: Fault, look: Look, made: Made | None, others: Sequence[tuple[int, Made | None]]
    ) -> Fault:
        """The same fault, with what the output was perhaps mistaken for."""
        if made is None:
            return fault
        count = len(look.taken.tensors)
        earlier: list[list[Earlier]] = [[] for _ in range(count)]
        known = [(f"call {call} of the same block", other) for call, other in others]
        known += [("a call with what these places held before", self.expected(one)) for one in look.before]
        for said, other in known:
            for index, leaf in enumerate(other.expected.leaves[:count] if other is not None else ()):
                earlier[index].append(Earlier(said, leaf.rule.peer.reshape(leaf.rule.shape), leaf.rule))
        for said, tensors in self._outputs:
            for index, (got, was) in enumerate(zip(look.taken.tensors, tensors, strict=False)):
                # Equal to the last bit though given other inputs; less than that proves nothing, since
                # contents have much in common.
                if got is not None and was is not None and _equal_bits(got, was):
                    earlier[index].insert(0, Earlier(said, was, None))
        named = list(zip(self._names, look.inputs, strict=True))
        return output_fault(made.expected, look.taken, look.after, inputs=named, earlier=earlier) or fault


def _equal_bits(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return same_bits(one.contiguous(), other.contiguous())


def output_fault(
    expected: ExpectedCall,
    taken: Taken,
    after: Sequence[Tensor] | None,
    *,
    inputs: Sequence[tuple[str, Tensor]] = (),
    earlier: Sequence[Sequence[Earlier]] = (),
) -> Fault | None:
    """What is wrong with an output, or with arguments that the call was to change; None: nothing."""
    fault = expected.form_fault(taken.value)
    if fault is not None:
        return fault
    for index, (leaf, got, fact) in enumerate(zip(expected.leaves, taken.tensors, taken.facts, strict=True)):
        fault = leaf.layout_fault(fact, dense=False)
        if fault is None and got is None:
            fault = Fault(Status.WRONG, f"{leaf.name} could not be read: {fact.problem}")
        if fault is None and got is not None:
            known = earlier[index] if index < len(earlier) else ()
            fault = leaf.fault(got, inputs=inputs, earlier=known, share="the same places")
        if fault is not None:
            return fault
    for place, leaf in expected.mutated.items():
        fault = leaf.fault(after[place]) if after is not None else None
        if fault is not None:
            return fault
    return None
