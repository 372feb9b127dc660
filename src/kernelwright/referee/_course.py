"""A course: contestants opened for timing, each in its own child, taking turns a batch at a time."""

from __future__ import annotations

import ctypes
import random
import secrets
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from kernelwright import machine
from kernelwright.referee import _layout as layout
from kernelwright.referee._check import fill_call
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._entrant import NativeCallLike
from kernelwright.referee._native_lane import Batch
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._native_seal import code_of
from kernelwright.referee._native_witness import Witness
from kernelwright.referee._placement import draw_padding
from kernelwright.referee._placement import draw_processor
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._shared import SharedMemory
from kernelwright.referee._statistics import Floats
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status

#: Wanted length of a batch; our clock can tell at 10 ms and above.
BATCH_NS = 11_000_000
#: Batches after which something was still running, before that is said to be no accident.
_UNSETTLED = 3
_ARENA = 256 << 20
_CACHES = {
    Mode.COLD: "each buffer set used once a batch, every line of it flushed from all caches before",
    Mode.WARM: "two buffer sets, called on right before; one element replaced before each call",
}


@dataclass
class Track:
    """The times of one running race: nanoseconds a call, one row a block, one column a contestant."""

    rows: list[Floats] = field(default_factory=list)
    judged: Counter[int] = field(default_factory=Counter)

    def column(self, contestant: int) -> Floats:
        """All times of one contestant, NaN where it did not run."""
        return np.array([row[contestant] for row in self.rows], dtype=np.float64)


class Course:
    """An opened race: blocks can be run on it. Contestant 0 is the baseline.

    With `data`, timed outputs can be judged.
    """

    def __init__(self, lanes: Sequence[Lane], *, data: RaceData | None, mode: Mode) -> None:
        self.lanes = list(lanes)
        self.contestants = tuple(lane.entrant for lane in lanes)
        self.track = Track()
        self._mode = mode
        # What is drawn here must not be foreseen, so no seed that somebody was told decides it.
        self._draw = random.Random(secrets.randbits(64))
        self._witness = Witness(data, lanes[0].buffers, self._draw) if data is not None else None
        for lane in lanes:
            lane.start_anew()

    def block(self, active: Sequence[int], *, judged: bool = False) -> Floats:
        """One batch of each of these contestants, in random order; their times, also kept in `track`.

        With `judged`, outputs of each batch are looked at. Raises KernelFailure, whose progress names the
        contestant under "run".
        """
        order = list(active)
        self._draw.shuffle(order)
        for index in order:
            with Blaming(index):
                self.lanes[index].prepare(self._draw.getrandbits(62))
        processor = draw_processor(self._draw)
        row: Floats = np.full(len(self.lanes), np.nan)
        for index in order:
            lane = self.lanes[index]
            with Blaming(index):
                row[index] = self._run(lane, judged, processor).call_ns
                if lane.stillness.unsettled >= _UNSETTLED:
                    raise KernelFailure(
                        Status.CHEATED,
                        f"left work running for a quarter of a second after its calls had returned, "
                        f"in {lane.stillness.unsettled} of {len(lane.batches)} batches",
                        {},
                    )
        if judged and self._witness is not None:
            for index in order:
                with Blaming(index):
                    self.track.judged[index] += self._witness.judge(self.lanes[index])
        self.track.rows.append(row)
        return row

    def solo(self, index: int) -> Batch:
        """One batch of one contestant that leaves no trace in the times."""
        lane = self.lanes[index]
        with Blaming(index):
            lane.prepare(self._draw.getrandbits(62))
            batch = self._run(lane, False, draw_processor(self._draw))
        lane.batches.pop()
        return batch

    def _run(self, lane: Lane, keep_last: bool, processor: int) -> Batch:
        return lane.run(keep_last=keep_last, padding=draw_padding(self._draw), processor=processor)

    def acts(self) -> dict[str, str]:
        """What entrants were seen to do to the race, by name: code changed, others disturbed."""
        found = {}
        for lane in self.lanes[1:]:
            words = lane.child.tampered() or lane.stillness.blame()
            if words is not None:
                found[lane.entrant.name] = words
        return found

    def facts(self, index: int) -> dict[str, Any]:
        """How one contestant was run, for the conditions of its contest."""
        lane, baseline = self.lanes[index], self.lanes[0]
        agreement = [one.busy_s / one.wall_s for one in lane.batches if one.wall_s > 0]
        return {
            "caches": _CACHES[self._mode],
            **lane.facts,
            "baseline_sets": baseline.facts["sets"],
            "llc_bytes": machine.current().llc_bytes,
            "rounds": len(self.track.rows),
            "batch_ms": round(float(np.median([one.wall_s for one in lane.batches])) * 1e3, 3),
            "judged_calls": self.track.judged.total(),
            "clock_agreement": round(float(np.median(agreement)), 4) if agreement else None,
            "processes": "each contestant in a process of its own",
            "guards": dict(lane.child.guards),
            "library": str(lane.entrant.library),
            "code": code_of(lane.entrant.library),
        }


def write_plan(
    store: SharedMemory,
    call: NativeCallLike,
    sources: Sequence[Mapping[str, int]],
    *,
    data: RaceData | None,
    mode: Mode,
    regime: Regime,
    threads: int,
    contestants: int,
    seed: int,
    batch_ns: int = BATCH_NS,
) -> int:
    """Write down how batches are run; the place in the store.

    `sources` are the places of inputs there, one mapping a group. Without `data`, nothing is judged, so that
    nothing is poisoned or replaced either. Lanes with the same `seed` have their buffers at the same places.
    """
    at = store.take(ctypes.sizeof(layout.RacePlan))
    plan = store.record(layout.RacePlan, at)
    fill_call(plan.call, call.block)
    plan.buffers = len(call.buffers)
    plan.groups = len(sources)
    plan.cold = int(mode is Mode.COLD)
    plan.allocating = int(regime is Regime.ALLOCATING)
    plan.threads = threads
    plan.judged = int(data is not None)
    plan.arena_limit = arena_limit(threads, contestants)
    plan.batch_ns = batch_ns
    plan.seed = seed
    for index, buffer in enumerate(call.buffers):
        entry = plan.buffer[index]
        entry.nbytes = buffer.nbytes
        entry.output = int(buffer.output)
        entry.vary = entry.item = 0
        if data is not None and not buffer.output:
            entry.vary, entry.item = data.vary(buffer.name), data.item(buffer.name)
        for group, source in enumerate(sources):
            entry.source[group] = layout.NONE if buffer.output else source[buffer.name]
    return at


class Blaming:
    """Names the contestant in a KernelFailure that passes."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KernelFailure):
            error.progress["run"] = self._index


def arena_limit(threads: int, contestants: int) -> int:
    """Bytes that the buffer sets of one contestant may take.

    Enough for a batch of 10 ms at 25 GB/s, more where many threads can move more; all contestants together
    never take above a quarter of the free memory.
    """
    wanted = _ARENA * max(1, threads // 4)
    import psutil  # a twentieth of a second, which a check of Python code need not spend

    return int(min(wanted, psutil.virtual_memory().available // (4 * contestants)))
