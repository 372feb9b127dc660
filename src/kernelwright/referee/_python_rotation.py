"""Buffers of all contestants: a ring, dealt out so that a cold call finds none of its data in a cache.

Which pages a buffer has decides much of a cold call's time, in a virtual machine more than elsewhere:
identical functions with a buffer each differed by 3 to 8%. So no contestant owns buffers. All take theirs
from one ring, in one fixed random order: between two visits of a slot, by whomever, the whole ring is
touched; nobody reads what another just read; and over the rounds each contestant sees all kinds of places.
Contestants in processes of their own map the same memory, and whoever asks them for blocks says where in the
order each block begins.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kernelwright.errors import UsageError

_LINE = 64
#: Between two tensors, so that no two of them start at the same place of a page.
_GAP = 5 * _LINE
_MADV_POPULATE_WRITE = 23
#: Slots that a contestant uses again and again in a warm block; the fewest it has in a cold one.
SLOTS_EACH = 2


@dataclass(frozen=True)
class Plan:
    """How much memory the ring takes and why.

    `slots` sets of buffers of `slot_bytes` each; `wanted_bytes` is what makes a call cold, zero for a warm
    one; `capped` says that memory did not allow as much.
    """

    slots: int
    slot_bytes: int
    wanted_bytes: int
    llc_bytes: int
    capped: bool

    @property
    def bytes(self) -> int:
        """Bytes of the ring."""
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


def plan_ring(
    footprint: int, contestants: int, *, wanted_bytes: int, llc_bytes: int, available_bytes: int
) -> Plan:
    """A ring of `wanted_bytes` for calls that touch `footprint` bytes; at least two slots a contestant.

    Beyond those, it takes at most a quarter of the available memory. Raises UsageError when they are more
    than half of it.
    """
    slot = max(footprint, _LINE)
    fewest = SLOTS_EACH * contestants
    if fewest * slot > available_bytes // 2:
        raise UsageError(
            f"{contestants} contestants with two sets of buffers each need {fewest * slot >> 20} MiB, "
            f"more than half of the {available_bytes >> 20} MiB available"
        )
    wanted = max(fewest, -(-wanted_bytes // slot))
    allowed = max(fewest, available_bytes // 4 // slot)
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
    """Memory for rings, mapped once and used again for each workload: a page is faulted in once.

    `descriptor` is an anonymous file that several processes map; None: private memory.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._memory: Tensor | None = None
        self._descriptor = descriptor

    def take(self, nbytes: int) -> Tensor:
        """`nbytes` bytes, whatever they hold."""
        if self._memory is None or self._memory.numel() < nbytes:
            self._memory = None
            mapped = _map(max(nbytes, mmap.PAGESIZE), self._descriptor)
            self._memory = torch.frombuffer(mapped, dtype=torch.uint8)
        return self._memory[:nbytes]


class Ring:
    """The slots, filled with `contents` in turn and dealt in one fixed random order.

    A random order keeps prefetchers from running ahead from a slot into the next. Views are made for a block
    at a time, so that the data are cold and the tensor objects are not. In a `warm` ring, a block gets two
    slots again and again, and the next block the next two.
    """

    def __init__(
        self,
        pool: Pool,
        layout: Layout,
        contents: Sequence[Mapping[str, Tensor]],
        output: str,
        *,
        slots: int,
        warm: bool,
        seed: int,
        fill: bool = True,
    ) -> None:
        self.layout = layout
        self.output = output
        self.warm = warm
        self._contents = len(contents)
        self._memory = pool.take(slots * layout.slot_bytes)
        self._typed = {dtype: self._memory.view(dtype) for dtype in layout.dtypes.values()}
        self._order = np.random.default_rng(seed).permutation(slots)
        self._next = 0
        self._strides = {name: _dense(shape) for name, shape in layout.shapes.items()}
        self._last = -1
        if fill:
            self._fill(contents, slots)

    def _fill(self, contents: Sequence[Mapping[str, Tensor]], slots: int) -> None:
        layout = self.layout
        rows = self._memory.view(slots, layout.slot_bytes)
        for name in layout.names:
            start, nbytes = layout.offsets[name], layout.nbytes[name]
            if name == self.output:
                rows[:, start : start + nbytes] = 0xFF
                continue
            for number, content in enumerate(contents):
                data = content[name].contiguous().reshape(-1).view(torch.uint8)
                rows[number :: self._contents, start : start + nbytes] = data

    def take(self, calls: int) -> list[tuple[Tensor, ...]]:
        """The tensors of the next `calls` calls, in the layout's order of names."""
        if not self.warm:
            return [self._views(self._advance()) for _ in range(calls)]
        few = [(slot, self._views(slot)) for slot in (self._advance() for _ in range(SLOTS_EACH))]
        self._last = few[(calls - 1) % SLOTS_EACH][0]
        return [few[number % SLOTS_EACH][1] for number in range(calls)]

    def used(self, calls: int) -> int:
        """How many places of the order a block of so many calls takes."""
        return SLOTS_EACH if self.warm else calls

    def seek(self, place: int) -> None:
        """Go on from this place of the order, which goes round."""
        self._next = place % len(self._order)

    def _advance(self) -> int:
        self._last = int(self._order[self._next])
        self._next = (self._next + 1) % len(self._order)
        return self._last

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


def _map(nbytes: int, descriptor: int | None) -> mmap.mmap:
    """Private anonymous memory, as the C library has it, but never a part of its heap; or shared memory, all
    of whose pages are mapped here and now, so that no timed call has to."""
    if descriptor is None:
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapped = mmap.mmap(descriptor, nbytes)
    try:
        mapped.madvise(_MADV_POPULATE_WRITE)
    except OSError:
        # Linux before 5.14: touched one by one.
        for at in range(0, nbytes, mmap.PAGESIZE):
            mapped[at] = mapped[at]
    return mapped


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
