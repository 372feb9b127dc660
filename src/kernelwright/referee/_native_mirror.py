"""What ought to lie in a child's buffer sets: worked out here, from the same seeds, by the same code."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from dataclasses import field
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernelwright.referee import _layout as layout
from kernelwright.referee._child import driver_library
from kernelwright.referee._shared import SharedMemory


@cache
def _driver() -> ctypes.CDLL:
    """The driver, in this process: of it only what computes contents is used here."""
    native = ctypes.CDLL(str(driver_library()))
    pointer, i64, i32, u64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_uint64
    native.kwr_race_contents.argtypes = (
        pointer,
        pointer,
        i32,
        i64,
        u64,
        pointer,
        i64,
        i64,
        i64,
        i64,
        pointer,
    )
    native.kwr_race_contents.restype = None
    native.kwr_race_order.argtypes = (pointer, u64, u64, i64, pointer, pointer)
    native.kwr_race_order.restype = None
    native.kwr_race_kept.argtypes = (u64, i64, pointer)
    return native


@dataclass
class Mirror:
    """The history of one contestant's sets, and what follows from it.

    `plan_at` is the plan's place in the store, `sets` how many sets batches rotate through.
    """

    store: SharedMemory
    plan_at: int
    sets: int
    seeds: list[int] = field(default_factory=list)
    calls: int = 0
    _order: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    _groups: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def plan(self) -> layout.RacePlan:
        """The plan, in place."""
        return self.store.record(layout.RacePlan, self.plan_at)

    @property
    def used(self) -> int:
        """How many sets one batch goes through, again and again."""
        most = self.sets if self.plan.cold else min(layout.WARM_SETS, self.sets)
        return min(most, self.calls)

    def prepared(self, seed: int, calls: int) -> None:
        """A batch of so many calls has been prepared with `seed`."""
        self.seeds.append(seed)
        self.calls = calls
        self._order = np.zeros(self.sets, np.int32)
        self._groups = np.zeros(self.sets, np.int32)
        _driver().kwr_race_order(
            self._plan_address,
            seed,
            self._fill_seed,
            self.sets,
            self._order.ctypes.data,
            self._groups.ctypes.data,
        )

    def turn_of(self, call: int) -> int:
        """The place in the order of the set that a call of the batch works on."""
        return call % (self.sets if self.plan.cold else min(layout.WARM_SETS, self.sets))

    def last_call(self, turn: int) -> int:
        """The batch's last call on the set at a place in the order."""
        return max(call for call in range(self.calls - self.used, self.calls) if self.turn_of(call) == turn)

    def set_at(self, turn: int) -> int:
        """The set at a place in the order."""
        return int(self._order[turn])

    def group_at(self, turn: int) -> int:
        """The input group that the set at a place in the order was filled from."""
        return int(self._groups[turn])

    def kept_calls(self) -> list[int]:
        """The calls of the batch that leave their output, in the allocating regime; ascending."""
        kept = (ctypes.c_int64 * layout.KEPT)()
        count = _driver().kwr_race_kept(self.seeds[-1], self.calls, kept)
        return list(kept[:count])

    def contents(self, buffer: int, turn: int, call: int) -> Tensor:
        """The bytes of an input buffer of the set at `turn`, as they are during call `call`."""
        plan = self.plan
        out = torch.empty(int(plan.buffer[buffer].nbytes), dtype=torch.uint8)
        replaced = self.seeds if plan.cold and plan.judged else []
        seeds = np.array(replaced, dtype=np.uint64)
        calls = call + 1 if plan.judged and not plan.cold else 0
        _driver().kwr_race_contents(
            self.store.address,
            self._plan_address,
            buffer,
            self.set_at(turn),
            self._fill_seed,
            seeds.ctypes.data,
            len(replaced),
            calls,
            turn,
            min(layout.WARM_SETS, self.sets),
            out.data_ptr(),
        )
        return out

    @property
    def _plan_address(self) -> int:
        return self.store.address + self.plan_at

    @property
    def _fill_seed(self) -> int:
        """Cold sets are filled once; the sets of a warm batch before it."""
        return int(self.plan.seed) if self.plan.cold else self.seeds[-1]
