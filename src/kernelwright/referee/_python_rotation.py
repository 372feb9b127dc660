"""Private buffers of one contestant, rotated so that a cold call finds nothing of its data in any cache."""

from __future__ import annotations

import mmap
import random
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernelwright.errors import UsageError

_LINE = 64
#: Between two tensors, so that no two of them start at the same place of a page.
_GAP = 5 * _LINE
_FEWEST_SLOTS = 2


@dataclass(frozen=True)
class Plan:
    """How much memory a rotation takes and why.

    `slots` sets of buffers of `slot_bytes` each; `wanted_bytes` is what makes a call cold, zero for a warm one;
    `capped` says that memory did not allow as much.
    """

    slots: int
    slot_bytes: int
    wanted_bytes: int
    llc_bytes: int
    capped: bool

    @property
    def bytes(self) -> int:
        """Bytes rotated by one contestant."""
        return self.slots * self.slot_bytes

    def as_dict(self) -> dict[str, int | float | bool]:
        """For a report: slots, bytes, multiples of the last-level cache."""
        multiple = self.bytes / self.llc_bytes if self.llc_bytes else 0.0
        return {
            "slots": self.slots,
            "bytes": self.bytes,
            "llc_bytes": self.llc_bytes,
            "llc_multiple": round(multiple, 2),
            "capped": self.capped,
        }


def plan_rotation(
    footprint: int, contestants: int, *, wanted_bytes: int, llc_bytes: int, available_bytes: int
) -> Plan:
    """Slots for one contestant whose call touches `footprint` bytes, so that it rotates `wanted_bytes`.

    Two slots at least; `wanted_bytes` of zero asks for no more, the warm mode. All contestants together take at
    most a quarter of the available memory beyond that. Raises UsageError when two slots each are more than half
    of it.
    """
    slot = max(footprint, _LINE)
    if _FEWEST_SLOTS * slot * contestants > available_bytes // 2:
        raise UsageError(
            f"{contestants} contestants with two sets of buffers each need {2 * slot * contestants >> 20} MiB, "
            f"more than half of the {available_bytes >> 20} MiB available"
        )
    wanted = max(_FEWEST_SLOTS, -(-wanted_bytes // slot))
    allowed = max(_FEWEST_SLOTS, available_bytes // 4 // contestants // slot)
    return Plan(min(wanted, allowed), slot, wanted_bytes, llc_bytes, capped=wanted > allowed)


class Layout:
    """Where each tensor of a call lies in a slot."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.names = tuple(tensors)
        self.shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        self.dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
        self.nbytes = {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}
        self.offsets: dict[str, int] = {}
        position = 0
        for name in self.names:
            self.offsets[name] = position
            position += -(-self.nbytes[name] // _LINE) * _LINE + _GAP
        self.slot_bytes = position


class Pool:
    """Memory of one contestant, mapped once and used again for each workload: a page is faulted in once."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None

    def take(self, nbytes: int) -> Tensor:
        """`nbytes` bytes, whatever they hold."""
        if self._memory is None or self._memory.numel() < nbytes:
            self._memory = None
            self._memory = torch.frombuffer(mmap.mmap(-1, max(nbytes, mmap.PAGESIZE)), dtype=torch.uint8)
        return self._memory[:nbytes]


class Rotation:
    """The slots of one contestant: filled with `contents` in turn, visited in one fixed random order.

    A fixed order means that a whole rotation lies between two visits of a slot; a random one that no
    prefetcher runs ahead from a slot into the next. Views are made for a block at a time, so that the data
    are cold and the tensor objects are not.
    """

    def __init__(
        self, pool: Pool, layout: Layout, contents: Sequence[Mapping[str, Tensor]], output: str, slots: int, seed: int
    ) -> None:
        self.layout = layout
        self.output = output
        self._contents = len(contents)
        self._memory = pool.take(slots * layout.slot_bytes)
        self._typed = {dtype: self._memory.view(dtype) for dtype in layout.dtypes.values()}
        self._order = list(range(slots))
        random.Random(seed).shuffle(self._order)
        self._next = 0
        self._strides = {name: _dense(shape) for name, shape in layout.shapes.items()}
        self._last = -1
        rows = self._memory.view(slots, layout.slot_bytes)
        for name in layout.names:
            start, nbytes = layout.offsets[name], layout.nbytes[name]
            if name == output:
                rows[:, start : start + nbytes] = 0xFF
                continue
            for number, content in enumerate(contents):
                data = content[name].contiguous().reshape(-1).view(torch.uint8)
                rows[number :: self._contents, start : start + nbytes] = data

    def take(self, calls: int) -> list[tuple[Tensor, ...]]:
        """The tensors of the next `calls` calls, in the layout's order of names."""
        order, total = self._order, len(self._order)
        found = []
        for _ in range(calls):
            self._last = order[self._next]
            self._next = self._next + 1 if self._next + 1 < total else 0
            found.append(self._views(self._last))
        return found

    @property
    def last_content(self) -> int:
        """The number of the content in the last slot taken."""
        return self._last % self._contents

    def last_output(self) -> Tensor:
        """The output buffer of the last slot taken."""
        return self._view(self._last, self.output)

    def last_inputs(self) -> dict[str, Tensor]:
        """The tensors of the last slot taken that a call may only read."""
        return {name: self._view(self._last, name) for name in self.layout.names if name != self.output}

    def poison_last(self) -> None:
        """Fill the output of the last slot taken with NaN, so that only a new call makes it right again."""
        start = self._last * self.layout.slot_bytes + self.layout.offsets[self.output]
        self._memory[start : start + self.layout.nbytes[self.output]] = 0xFF

    def _views(self, slot: int) -> tuple[Tensor, ...]:
        return tuple([self._view(slot, name) for name in self.layout.names])

    def _view(self, slot: int, name: str) -> Tensor:
        layout = self.layout
        typed = self._typed[layout.dtypes[name]]
        start = (slot * layout.slot_bytes + layout.offsets[name]) // typed.element_size()
        return torch.as_strided(typed, layout.shapes[name], self._strides[name], start)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
