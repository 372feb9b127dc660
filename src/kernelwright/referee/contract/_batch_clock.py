"""The clock for anyone's Python kernel: blocks of calls in processes of their own, timed by the judge.

The time of record is that of the judge's clock around a whole block, minus what a message takes; that is
measured on the baseline's process and taken off both. Nothing that the candidate's process says enters it.
What it says of its own clock is kept as a cross-check, and what its processes use of the processor is watched
from outside, in its blocks and between them.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from kernelwright.referee._clock import Round
from kernelwright.referee._clock import Seen
from kernelwright.referee._clocks import borne_out
from kernelwright.referee._placement import draw_processor
from kernelwright.referee._verdict import Mode
from kernelwright.referee._waiting import kept_waiting_s
from kernelwright.referee.contract._block_plan import BlockPlan
from kernelwright.referee.contract._conduct import Conduct
from kernelwright.referee.contract._conduct import wait_quiet
from kernelwright.referee.contract._conduct import Window
from kernelwright.referee.contract._flush import Flusher
from kernelwright.referee.contract._slots import Slots
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._stage import PerformerFailure

#: Contestants of a round: both, and both again. Who comes once where the other comes twice finds less of
#: what it needs in the caches: copies of one kernel were 2% to 4% apart for that.
BASELINE, CANDIDATE, AGAIN, CANDIDATE_AGAIN = range(4)
#: How long a performer may work on after its block, as OpenMP's threads do while they spin.
GRACE_S = 0.3
#: A block may take so many times what its calls took when it was planned, and this much more.
_SLOWER = 20.0
_SPARE_S = 10.0


@dataclass
class Side:
    """A performer with its arguments, its block and what it was seen to do."""

    name: str
    performer: Performer
    slots: Slots
    plan: BlockPlan
    conduct: Conduct = field(default_factory=Conduct)
    call_ns: float = math.inf

    @property
    def usual_ns(self) -> float:
        """What a call took in the median block so far; without any, what was planned by."""
        took = self.conduct.call_ns
        return statistics.median(took) if took else self.call_ns

    @property
    def patience_s(self) -> float:
        """How long a block may take."""
        known = self.call_ns if math.isfinite(self.call_ns) else 0.0
        return _SPARE_S + _SLOWER * (self.plan.calls + self.plan.lead) * known * 1e-9


class BlockFailed(Exception):
    """A contestant failed in its block; `contestant` is its index."""

    def __init__(self, contestant: int, failure: PerformerFailure) -> None:
        self.contestant = contestant
        self.failure = failure
        super().__init__(failure.reason)


class BatchClock:
    """Two performers as contestants, the baseline and the candidate, each twice a round if wanted.

    A `Clock`. `mutates`: calls change their arguments, so that contents are written anew in full. `flusher`
    is needed where plans are cold. `look` is called right after a first block of the candidate, before
    anything else happens, with the slot of each of its calls.
    """

    def __init__(
        self,
        baseline: Side,
        candidate: Side,
        *,
        mode: Mode,
        overhead_ns: float,
        seed: int,
        mutates: bool = False,
        flusher: Flusher | None = None,
        look: Callable[[tuple[int, ...]], None] | None = None,
    ) -> None:
        self.names: Sequence[str] = (
            *(baseline.name, candidate.name),
            *(f"{baseline.name} again", f"{candidate.name} again"),
        )
        self._sides = (baseline, candidate, baseline, candidate)
        self._mode = mode
        self._overhead_ns = overhead_ns
        self._random = np.random.default_rng(seed)
        self._places = random.Random(seed)
        self._mutates = mutates
        self._flusher = flusher
        self._look = look
        self._rounds = 0

    def round(self, active: Sequence[int]) -> Round:
        """One block of each active contestant, in random order; see `Clock.round`.

        Raises BlockFailed.
        """
        ns = np.full((1, len(self._sides)), np.nan)
        seen: dict[int | None, Seen] = {}
        processor = draw_processor(self._places)
        for contestant in self._random.permutation(list(active)):
            index = int(contestant)
            try:
                ns[0, index], seen[index] = self._block(index, processor)
            except PerformerFailure as failure:
                raise BlockFailed(index, failure) from failure
        self._rounds += 1
        return Round(ns, seen)

    def facts(self) -> Mapping[str, Any]:
        """How it was timed; see `Clock.facts`."""
        baseline, candidate = self._sides[BASELINE], self._sides[CANDIDATE]
        return {
            "clock": "the judge's, around whole blocks",
            "calls": "forward, under no_grad",
            "caches": caches_said(candidate.plan, self._mode, self._flusher),
            "calls_a_block": [baseline.plan.calls, candidate.plan.calls],
            "sets": [baseline.plan.slots, candidate.plan.slots],
            "set_bytes": candidate.slots.nbytes,
            "contents_distinct_in_a_block": [baseline.plan.distinct, candidate.plan.distinct],
            "outputs": "allocated by each call, all kept until the block has ended; freed pages stay mapped",
            "overhead_ns": round(self._overhead_ns),
            "rounds": self._rounds,
        }

    def _block(self, index: int, processor: int) -> tuple[float, Seen]:
        side = self._sides[index]
        other = self._sides[index - 1]
        order = side.slots.order(side.plan.calls + side.plan.lead)
        lead, order = order[: side.plan.lead], order[side.plan.lead :]
        used, began = 0, 0.0
        self._write(side)

        def touch() -> None:
            nonlocal used, began
            # Threads of the calls ahead still spin, as those of one call do when the next one comes. To wake
            # them from sleep instead would put them anywhere, two on one processor for a while.
            if not self._mutates:
                side.slots.touch()
            used, began = other.performer.cpu_ns(), time.perf_counter()

        waited_s = kept_waiting_s()
        batch = side.performer.batch(
            order, lead=lead, refresh=touch, within_s=side.patience_s, processor=processor
        )
        late_s = kept_waiting_s() - waited_s
        window = Window(time.perf_counter() - began, max(0, other.performer.cpu_ns() - used) * 1e-9)
        if index == CANDIDATE and self._look is not None:
            self._look(tuple(order))
        tail, quiet = wait_quiet(side.performer, GRACE_S)
        wall_ns = max(batch.wall_ns - self._overhead_ns, 1.0)
        own_s = batch.own_ns * 1e-9
        seen = borne_out(wall_ns * 1e-9, own_s, late_s), own_s
        other.conduct.windows.append(window)
        side.conduct.tails.append(tail)
        side.conduct.restless += not quiet
        side.conduct.seen.append(seen)
        side.conduct.shares.append(batch.cpu_ns / max(batch.wall_ns, 1))
        side.conduct.call_ns.append(wall_ns / len(order))
        side.call_ns = min(side.call_ns, wall_ns / len(order))
        return wall_ns / len(order), seen

    def _write(self, side: Side) -> None:
        """What takes time before a block: contents, and emptying caches. The performer has nothing to do."""
        own, since = side.performer.cpu_ns(), time.perf_counter()
        if self._mutates:
            side.slots.restore()
        else:
            side.slots.prepare()
        if side.plan.cold and self._flusher is not None:
            self._flusher.flush(side.slots.spans)
        now = time.perf_counter()
        side.conduct.ahead.append(Window(now - since, max(0, side.performer.cpu_ns() - own) * 1e-9))


def caches_said(plan: BlockPlan, mode: Mode, flusher: Flusher | None) -> str:
    """What the mode means here, in words."""
    if mode is Mode.COLD:
        how = flusher.said if flusher is not None else "not flushed"
        return f"each set of inputs used once a block, {how}; outputs and code are not flushed"
    if plan.distinct:
        return f"{plan.slots} sets of inputs, each used once a block, written by the judge right before"
    return f"{plan.slots} sets of inputs again and again, called on right before"
