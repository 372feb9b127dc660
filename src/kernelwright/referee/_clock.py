"""The clock as the referee sees it: rounds of interleaved blocks, each with the judge's time for it.

What differs between a native CPU kernel, anyone's Python function and a GPU kernel is how one block is made
ready, run and timed. When to measure on, when to stop and what may be concluded is the same for all of them,
and needs of a clock only what `Clock` asks. Three kinds fit:

* `CourseClock`: a native driver times windows of calls in the contestant's process; the judge clocks each
  batch and rejects disagreement.
* `kernelwright.referee.contract`: each contestant is a process of its own; the judge clocks each block of at
  least ten milliseconds, and the process's own figure is the cross-check.
* a GPU: see `Clock.round`, which says where flushing, synchronising and reading clock rates belong.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Protocol
from typing import runtime_checkable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kernelwright.referee._course import Course

Floats = NDArray[np.float64]

#: Seconds of one stretch of work: on the judge's clock, and as whoever was timed tells them.
Seen = tuple[float, float]


@dataclass(frozen=True)
class Round:
    """What one round found.

    `ns` has a row for each block and a column for each contestant of the clock: nanoseconds of one call, NaN
    where the contestant did not run or the sample was discarded. `seen` holds the cross-check of each
    contestant that ran; a clock that can only cross-check the round as a whole puts it under None.
    `discarded` counts samples that were measured but must not count, by reason (`throttled`).
    """

    ns: Floats
    seen: Mapping[int | None, Seen] = field(default_factory=dict)
    discarded: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Clock(Protocol):
    """Times contestants against each other. Contestant 0 is the baseline.

    A clock knows its contestants, their inputs and its mode from when it was made, and how many calls a block
    of each has; callers choose only who runs and how often.
    """

    @property
    def names(self) -> Sequence[str]:
        """The contestants, in the order of columns."""

    def round(self, active: Sequence[int]) -> Round:
        """Run one block, or several, of each active contestant, interleaved in an order drawn anew.

        For each block, in this order:

        1. Unclocked: fresh contents in fresh places; the caches as the mode wants them. On a GPU this is
           where more memory than the L2 holds is written (persisting lines have to be reset first), and where
           a captured graph is made to point at the new places.
        2. Unclocked: wait until nothing runs that an earlier block started. On a GPU: synchronise the device,
           not a stream.
        3. Clocked: the calls of the block, back to back. The time of record must not be one that the
           contestant can reach: the judge's own clock, or events that the driver records around the block.
        4. Still clocked: everything that the calls started has ended. On a GPU: synchronise the device, so
           that work on other streams counts; a block whose events tell less than the judge's clock by more
           than launching takes has left work running.
        5. Unclocked: read what spoils a sample (clock rates, reasons for throttling); put NaN for a spoilt
           one, and count it in `discarded`.

        Raises what the clock raises when a contestant fails, crashes or hangs.
        """

    def facts(self) -> Mapping[str, Any]:
        """How it was timed, as plain data for the conditions of a contest.

        At least: `clock` (whose time is on record), `caches` (what the mode means here), `calls_a_block`,
        `rounds`; where known, clock rates and how many samples were discarded.
        """


class CourseClock:
    """The native CPU driver as a clock: it times windows of calls in each contestant's own process, and the
    judge's clock of each batch is the cross-check."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self.names: Sequence[str] = tuple(entrant.name for entrant in course.contestants)

    def round(self, active: Sequence[int]) -> Round:
        """One batch of each; see `Clock.round`. Raises KernelFailure."""
        ns = self._course.block(active)
        last = {index: self._course.lanes[index].batches[-1] for index in active}
        seen: dict[int | None, Seen] = {index: (one.wall_s, one.busy_s) for index, one in last.items()}
        return Round(ns.reshape(1, -1), seen)

    def facts(self) -> Mapping[str, Any]:
        """What the course says of itself, the first contestant beside the baseline standing for all."""
        facts = self._course.facts(min(1, len(self.names) - 1))
        calls = [lane.batches[-1].calls if lane.batches else 0 for lane in self._course.lanes]
        return {
            "clock": "native driver, cross-checked by the judge's clock of each batch",
            "calls_a_block": calls,
            **facts,
        }
