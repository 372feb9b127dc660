"""A lane: one contestant, opened for a race in its own child, and batches run in it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernelwright.referee import _layout as layout
from kernelwright.referee._check import kernel_error
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._clocks import borne_out
from kernelwright.referee._entrant import BufferLike
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._native_mirror import Mirror
from kernelwright.referee._native_tasks import Stillness
from kernelwright.referee._statistics import Floats
from kernelwright.referee._verdict import Status
from kernelwright.referee._waiting import kept_waiting_s

_MOST_WINDOWS = 2048
_MOST_SETS = 1 << 16
#: Looks at one batch, at most.
MOST_LOOKS = 12


@dataclass(frozen=True)
class Batch:
    """One clocked batch: seconds on our clock, nanoseconds of its windows on the child's, calls a window.

    What we were kept waiting is left out of `wall_s`; see `_clocks.borne_out`.
    """

    wall_s: float
    windows_ns: Floats
    calls: int

    @property
    def busy_s(self) -> float:
        """Seconds that the child says it was calling."""
        return float(self.windows_ns.sum()) * 1e-9

    @property
    def call_ns(self) -> float:
        """Nanoseconds a call: the mean of the middle half of the windows.

        What interrupts a few windows does not move it; what slows every call does.
        """
        ordered = np.sort(self.windows_ns)
        cut = len(ordered) // 4
        return float(ordered[cut : len(ordered) - cut].mean()) / self.calls


@dataclass
class Seen:
    """A buffer as found in the child: its bytes, and whether the fences around it stand."""

    data: Tensor
    fenced: bool


@dataclass
class Lane:
    """One contestant in its child, which must be opened first. Methods raise KernelFailure."""

    entrant: NativeEntrant
    child: MeasuringChild
    patience: Patience
    buffers: Sequence[BufferLike]
    sets: int = 0
    windows: int = 0
    calls: int = 0
    mirror: Mirror | None = None
    batches: list[Batch] = field(default_factory=list)
    stillness: Stillness = field(default_factory=Stillness)
    facts: dict[str, Any] = field(default_factory=dict)

    def open(self, plan_at: int) -> None:
        """Calibrate, and fill the buffer sets."""
        kernel = self.child.load(self.entrant, self.patience)
        board = self.child.board
        self._state_at = board.take(ctypes.sizeof(layout.RaceState))
        self._ask({"op": "open", "plan": plan_at, "state": self._state_at, "kernel": kernel})
        state = self._state
        # Numbers that the child says are copied once and bounded: it can write there at any time.
        self.sets = min(max(int(state.sets), 1), _MOST_SETS)
        self.windows = min(max(int(state.windows), 1), _MOST_WINDOWS)
        self.calls = max(int(state.calls), 1)
        self._control = int(state.float_control)
        self.mirror = Mirror(self.child.store, plan_at, self.sets)
        self._samples_at = board.take(_MOST_WINDOWS * 8)
        self._looks_at = board.take(MOST_LOOKS * ctypes.sizeof(layout.Look))
        self._copies_at = board.top
        self.facts = {
            "sets": self.sets,
            "set_bytes": int(state.set_bytes),
            "arena_bytes": int(state.arena_bytes),
            "huge_pages": bool(state.huge_pages),
            "calls_a_batch": self.windows * self.calls,
            "flush_to_zero": bool(self._control & 0x8000),
            "denormals_are_zero": bool(self._control & 0x0040),
        }

    def start_anew(self) -> None:
        """Forget earlier batches; the child should be still from now on."""
        self.batches.clear()
        self.stillness = Stillness()
        if self.child.process is not None:
            self.stillness.watch(self.child.process)

    def prepare(self, seed: int) -> None:
        """Renew contents, and empty caches."""
        self.stillness.check()
        self._ask({"op": "prepare", "seed": seed, "windows": self.windows})
        assert self.mirror is not None
        self.mirror.prepared(seed, self.windows * self.calls)
        self.stillness.rest()

    def run(self, *, keep_last: bool, padding: int, processor: int) -> Batch:
        """Call and clock what has been prepared, then wait until nothing of it runs any more.

        `padding` and `processor` are where it begins; see `_placement`.
        """
        self.stillness.check()
        self._ask({"op": "lead", "padding": padding, "processor": processor})
        message = {"op": "batch", "samples": self._samples_at, "keep_last": int(keep_last)}
        waited = self._kept_waiting_s()
        started = time.perf_counter()
        self._ask(message)
        wall = time.perf_counter() - started
        late = self._kept_waiting_s() - waited
        board = self.child.board
        at = board.address + self._samples_at
        windows = np.array((ctypes.c_double * self.windows).from_address(at), dtype=np.float64)
        if not (np.isfinite(windows).all() and (windows > 0).all()):
            raise KernelFailure(Status.CHEATED, "left times that no clock gives", {})
        found = int(self._state.float_control_found)
        if found != self._control:
            words = f"left the floating-point controls changed ({self._control:#x} to {found:#x})"
            raise KernelFailure(Status.WRONG, f"{words} by a timed call", {})
        wall = borne_out(wall, float(windows.sum()) * 1e-9, late)
        batch = Batch(wall, windows, self.calls)
        self.batches.append(batch)
        self._ask({"op": "rest"})
        self.stillness.settle()
        return batch

    def _kept_waiting_s(self) -> float:
        """What we, and the thread that answers us, have waited for processors on which others went on."""
        child = self.child.process
        return kept_waiting_s() + (child.answer_delayed_ns() * 1e-9 if child is not None else 0.0)

    def look(self, wanted: Sequence[tuple[int, int]]) -> list[list[Seen | None]]:
        """What the child shows of sets or kept calls; each (number, kind), kinds as in layout.

        One list a look, one entry a buffer: None where it was not asked for.
        """
        board = self.child.board
        records = board.records(layout.Look, self._looks_at, len(wanted))
        for record, (number, kind) in zip(records, wanted, strict=True):
            record.set, record.kind = number, kind
        board.rewind(self._copies_at)
        places: list[list[int | None]] = []
        for _, kind in wanted:
            spots: list[int | None] = []
            for buffer in self.buffers:
                shown = buffer.output or kind == layout.ALL
                size = (buffer.nbytes + 2 * layout.FENCE_BYTES + 63) // 64 * 64
                spots.append(board.take(size) if shown else None)
            places.append(spots)
        self.stillness.check()
        self._ask({"op": "look", "looks": self._looks_at, "count": len(wanted), "copies": self._copies_at})
        self.stillness.rest()
        return [
            [
                None if at is None else self._seen(at, buffer.nbytes, kind)
                for at, buffer in zip(spots, self.buffers, strict=True)
            ]
            for spots, (_, kind) in zip(places, wanted, strict=True)
        ]

    def put_away(self) -> None:
        """Give back the memory of looks; what was seen must not be used any more."""
        self.child.board.release(self._copies_at)

    def _seen(self, at: int, nbytes: int, kind: int) -> Seen:
        board = self.child.board
        data = board.view(at + layout.FENCE_BYTES, nbytes, torch.uint8)
        if kind == layout.LAST:
            return Seen(data, True)
        fences = (
            board.view(at, layout.FENCE_BYTES, torch.uint8),
            board.view(at + layout.FENCE_BYTES + nbytes, layout.FENCE_BYTES, torch.uint8),
        )
        return Seen(data, all(bool((fence == layout.FENCE).all()) for fence in fences))

    @property
    def _state(self) -> layout.RaceState:
        return self.child.board.record(layout.RaceState, self._state_at)

    def _ask(self, message: Mapping[str, Any]) -> None:
        """Ask the driver; a kernel's error code or lack of memory becomes a KernelFailure as a death does."""
        answer = self.child.request(message, self.patience)
        rc = answer.get("rc")
        if rc == 0:
            return
        if rc != -1:
            raise RefereeError(f"no memory for the buffers of a race (error {rc}); choose a smaller workload")
        status, words = kernel_error(int(self._state.status))
        raise KernelFailure(status, f"{words} when timed", {})
