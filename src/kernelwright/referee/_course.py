"""A course: kernels opened for timing in the child, and rounds run on it.

Contests are interleaved natively; outputs of timed calls are sampled there and judged here.
"""

from __future__ import annotations

import ctypes
import random
import time
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import psutil

from kernelwright import machine
from kernelwright.referee import _layout as layout
from kernelwright.referee._check import fill_call
from kernelwright.referee._check import kernel_error
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._entrant import NativeCallLike
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._statistics import Floats
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime

#: Wanted length of the clocked part of a round; the parent's clock can tell at 10 ms and above.
ROUND_NS = 25_000_000
#: Renewed sets a lane and round, at most.
MOST_TRAPS = 4
_ARENA = 512 << 20
_CACHES = {
    Mode.COLD: "each buffer set used once a round, every line of it flushed from all caches before",
    Mode.WARM: "two buffer sets, called on right before",
}


@dataclass
class Track:
    """The samples of one running race: nanoseconds a call, one row a block, one column a contestant."""

    rows: list[Floats] = field(default_factory=list)
    agreement: list[tuple[float, float]] = field(default_factory=list)
    judged: Counter[int] = field(default_factory=Counter)

    def column(self, contestant: int) -> Floats:
        """All samples of one contestant, NaN where it did not run."""
        joined: Floats = np.concatenate([rows[:, contestant] for rows in self.rows])
        return joined


class Course:
    """An opened race in the child: rounds can be run on it. Contestant 0 is the baseline."""

    def __init__(
        self,
        child: MeasuringChild,
        contestants: Sequence[NativeEntrant],
        call: NativeCallLike,
        sources: Sequence[Mapping[str, int]],
        vary: Mapping[str, int],
        *,
        mode: Mode,
        regime: Regime,
        threads: int,
        seed: int,
        patience: Patience,
        round_ns: int = ROUND_NS,
    ) -> None:
        self._child = child
        self._call = call
        self._patience = patience
        self._mode = mode
        self._draw = random.Random(seed)
        self.contestants = tuple(contestants)
        self.track = Track()
        store, board = child.store, child.board
        kernels = [self._load(index) for index in range(len(contestants))]
        plan_at = store.take(ctypes.sizeof(layout.RacePlan))
        self._state_at = board.take(ctypes.sizeof(layout.RaceState))
        plan = store.record(layout.RacePlan, plan_at)
        fill_call(plan.call, call.block)
        plan.contestants = len(contestants)
        plan.buffers = len(call.buffers)
        plan.groups = len(sources)
        plan.cold = int(mode is Mode.COLD)
        plan.allocating = int(regime is Regime.ALLOCATING)
        plan.threads = threads
        plan.arena_limit = arena_limit(threads)
        plan.round_ns = round_ns
        plan.seed = self._draw.getrandbits(31)
        for index, buffer in enumerate(call.buffers):
            entry = plan.buffer[index]
            entry.nbytes = buffer.nbytes
            entry.output = int(buffer.output)
            entry.vary = 0 if buffer.output else vary.get(buffer.name, 0)
            for group, source in enumerate(sources):
                entry.source[group] = layout.NONE if buffer.output else source[buffer.name]
        self._ask({"op": "open", "plan": plan_at, "state": self._state_at, "kernels": kernels})
        state = self.state
        rows = int(state.blocks_per_round)
        self._samples_at = board.take(rows * len(contestants) * 8)
        self._sampled_at = board.take(MOST_TRAPS * len(contestants) * ctypes.sizeof(layout.Sample))
        self._copies_at = board.take(
            MOST_TRAPS * len(contestants) * sum((buffer.nbytes + 127) // 64 * 64 for buffer in call.buffers)
        )

    @property
    def state(self) -> layout.RaceState:
        """What the driver says of the race, in place."""
        return self._child.board.record(layout.RaceState, self._state_at)

    def round(self, active: Sequence[int], *, traps: int = 1, blocks: int | None = None) -> Floats:
        """Run one round of these contestants; its samples, which are kept in `track` as well."""
        state = self.state
        mask = sum(1 << index for index in active)
        count = int(state.blocks_per_round) if blocks is None else min(blocks, int(state.blocks_per_round))
        self._ask(
            {
                "op": "prepare",
                "seed": self._draw.getrandbits(62),
                "blocks": count,
                "active": mask,
                "traps": traps,
            }
        )
        message = {"op": "round", "seed": self._draw.getrandbits(62), "samples": self._samples_at}
        started = time.perf_counter()
        self._ask(message)
        wall = time.perf_counter() - started
        shape = (count, len(self.contestants))
        flat = (ctypes.c_double * (shape[0] * shape[1])).from_address(
            self._child.board.address + self._samples_at
        )
        rows: Floats = np.array(flat, dtype=np.float64).reshape(shape)
        self.track.rows.append(rows)
        self.track.agreement.append((wall, (state.timed_ns + state.other_ns) * 1e-9))
        return rows

    def judge_sampled(self, data: RaceData) -> tuple[int, str] | None:
        """The first contestant whose sampled output is wrong, and why."""
        self._ask({"op": "collect", "samples": self._sampled_at, "copies": self._copies_at})
        board = self._child.board
        buffers = self._call.buffers
        for sample in board.records(layout.Sample, self._sampled_at, int(self.state.samples)):
            contestant = int(sample.contestant)
            if contestant == layout.NONE:
                continue
            for what, mask in (
                ("changed its input", sample.inputs_changed),
                ("wrote past the end of its buffer", sample.written_outside),
            ):
                if mask:
                    names = [buffer.name for index, buffer in enumerate(buffers) if mask >> index & 1]
                    return contestant, f"{what} {' and '.join(names)} in a timed call"
            tensors = {}
            for index, buffer in enumerate(buffers):
                if sample.at[index] == layout.NONE:
                    continue
                dtype = data.dtype if buffer.output else data.groups[0].arguments[buffer.name].dtype
                tensors[buffer.name] = board.view(sample.at[index], buffer.nbytes, dtype)
            (output,) = [tensors.pop(buffer.name) for buffer in buffers if buffer.output]
            fault = data.fault(int(sample.group), tensors, output)
            if fault is not None:
                return contestant, f"the output of a timed call is wrong: {fault}"
            self.track.judged[contestant] += 1
        return None

    def facts(self) -> dict[str, Any]:
        """How the race was run, for its conditions."""
        state = self.state
        agreement = [busy / wall for wall, busy in self.track.agreement if wall > 0]
        return {
            "caches": _CACHES[self._mode],
            "sets": int(state.sets),
            "set_bytes": int(state.set_bytes),
            "arena_bytes": int(state.arena_bytes),
            "llc_bytes": machine.current().llc_bytes,
            "huge_pages": bool(state.huge_pages),
            "calls_a_sample": list(state.calls)[: len(self.contestants)],
            "rounds": len(self.track.rows),
            "judged_calls": self.track.judged.total(),
            "clock_agreement": round(float(np.median(agreement)), 4) if agreement else None,
            "flush_to_zero": bool(state.float_control & 0x8000),
            "denormals_are_zero": bool(state.float_control & 0x0040),
        }

    def _load(self, index: int) -> int:
        try:
            return self._child.load(self.contestants[index], self._patience)
        except KernelFailure as failure:
            failure.progress["run"] = index
            raise

    def _ask(self, message: Mapping[str, Any]) -> None:
        """Ask the driver; a kernel's error code or lack of memory becomes a KernelFailure as a death does."""
        answer = self._child.request(message, self._patience)
        if answer["rc"] == 0:
            return
        if answer["rc"] != -1:
            raise RefereeError(
                f"no memory for the buffers of a race (error {answer['rc']}); choose a smaller workload"
            )
        state = self.state
        status, words = kernel_error(int(state.status))
        raise KernelFailure(status, f"{words} when timed", {"run": int(state.failed)})


def arena_limit(threads: int) -> int:
    """Bytes that the buffer sets of a race should take.

    Enough for a round of 10 ms at 50 GB/s, more where many threads can move more, at most four times the
    last-level cache where that is more than this, and never above a quarter of the free memory.
    """
    wanted = _ARENA * max(1, threads // 4)
    rule = max(4 * machine.current().llc_bytes, _ARENA)
    return int(min(wanted, rule, psutil.virtual_memory().available // 4))
