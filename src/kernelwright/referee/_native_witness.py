"""Outputs of timed calls: looked at after the batch, where nobody could foresee it, and judged here.

Contents are worked out from seeds in this process; the child is asked for nothing but bytes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from torch import Tensor

from kernelwright.referee import _layout as layout
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._entrant import BufferLike
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._native_lane import Seen
from kernelwright.referee._oracle import count_unwritten
from kernelwright.referee._oracle import few_threads
from kernelwright.referee._oracle import same_bits
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._verdict import Status

#: Further outputs of a batch of which only is asked whether they were written at all.
_GLANCES = 8
_GLANCED_BYTES = 4 << 20


class TimedFault(KernelFailure):
    """A timed call whose output, or what lay around it, is not what it has to be."""


class Witness:
    """Looks at batches of any lane of a course."""

    def __init__(
        self,
        data: RaceData,
        buffers: Sequence[BufferLike],
        draw: random.Random,
        some_rows: bool = False,
    ) -> None:
        self._data = data
        self._buffers = buffers
        self._draw = draw
        self._some_rows = some_rows
        self._output_bytes = sum(buffer.nbytes for buffer in buffers if buffer.output)

    def judge(self, lane: Lane) -> int:
        """Judge outputs of a lane's last batch: of its last call, of one drawn now, glances at more.

        Their number. Raises TimedFault.
        """
        with few_threads(self._data.elements):
            return self._judge_batch(lane)

    def _judge_batch(self, lane: Lane) -> int:
        mirror = lane.mirror
        assert mirror is not None
        allocating = bool(mirror.plan.allocating)
        last = mirror.calls - 1
        chosen = self._choose(lane)
        glanced = self._glances(lane, {last, *chosen})

        def number(call: int) -> int:
            return call if allocating else mirror.set_at(mirror.turn_of(call))

        wanted = [(number(last), layout.LAST), (number(last), layout.ALL)]
        wanted += [(number(call), layout.ALL) for call in chosen]
        wanted += [(number(call), layout.OUTPUTS) for call in glanced]
        shown = lane.look(wanted)
        at_return, *full = shown[: 2 + len(chosen)]
        for call, seen in zip([last, *chosen], full, strict=True):
            self._judge(lane, call, seen, at_return if call == last else None)
        for call, seen in zip(glanced, shown[2 + len(chosen) :], strict=True):
            for output in self._outputs(seen):
                if count_unwritten(output, layout.POISON[0]):
                    (whole,) = lane.look([(number(call), layout.ALL)])
                    self._judge(lane, call, whole, None)
        return 1 + len(chosen) + len(glanced)

    def _choose(self, lane: Lane) -> list[int]:
        """One call to be judged beside the last one: the last of its set, or one whose output was kept."""
        mirror = lane.mirror
        assert mirror is not None
        if mirror.plan.allocating:
            others = mirror.kept_calls()[:-1]
        else:
            others = [call for call in range(mirror.calls - mirror.used, mirror.calls - 1) if call >= 0]
        return [self._draw.choice(others)] if others else []

    def _glances(self, lane: Lane, known: set[int]) -> list[int]:
        """More calls of which each has an output of its own that was poisoned before."""
        mirror = lane.mirror
        assert mirror is not None
        most = min(_GLANCES, _GLANCED_BYTES // max(self._output_bytes, 1))
        if mirror.plan.allocating or not mirror.plan.cold or most < 1:
            return []
        others = [call for call in range(mirror.calls) if call not in known]
        return self._draw.sample(others, min(most, len(others)))

    def _judge(
        self, lane: Lane, call: int, seen: Sequence[Seen | None], at_return: Sequence[Seen | None] | None
    ) -> None:
        mirror = lane.mirror
        assert mirror is not None
        turn = mirror.turn_of(call)
        inputs: dict[str, Tensor] = {}
        for index, (buffer, found) in enumerate(zip(self._buffers, seen, strict=True)):
            assert found is not None
            if not found.fenced:
                raise TimedFault(
                    Status.WRONG, f"wrote past the ends of its buffer {buffer.name} in a timed call", {}
                )
            if buffer.output:
                continue
            last = mirror.contents(index, turn, mirror.last_call(turn))
            if not same_bits(last, found.data):
                raise TimedFault(Status.WRONG, f"changed its input {buffer.name} in a timed call", {})
            # What is replaced before each call is so in warm batches alone.
            inputs[buffer.name] = last if mirror.plan.cold else mirror.contents(index, turn, call)
        (output,) = self._outputs(seen)
        group = mirror.group_at(turn)
        fault = self._data.fault(group, inputs, output, draw=self._draw if self._some_rows else None)
        if fault is not None:
            raise TimedFault(Status.WRONG, f"the output of a timed call is wrong: {fault}", {})
        if at_return is not None:
            (early,) = self._outputs(at_return)
            if not same_bits(early, output):
                late = self._data.fault(group, inputs, early)
                raise TimedFault(
                    Status.CHEATED,
                    "left work running after the call returned: the output was not there then "
                    f"({late or 'other bits'}) but was later",
                    {},
                )

    def _outputs(self, seen: Sequence[Seen | None]) -> list[Tensor]:
        return [
            found.data.view(self._data.dtype)
            for buffer, found in zip(self._buffers, seen, strict=True)
            if buffer.output and found is not None
        ]
