"""The memory that the judge shares with one child: places for tensors, with fences around them."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal

import torch
from torch import Tensor

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._tree import Node

Guard = Literal["before", "after"]

PAGE = mmap.PAGESIZE
FENCE = 256
"""Bytes of pattern before and after each tensor."""
PATTERN = 0xFF
LOG_BYTES = 64 * 1024
"""The first bytes of a board are where a child notes what it may not live to say."""

_ALIGN = 64
_MADV_POPULATE_WRITE = 23
#: From here on, released memory is given back to the system.
_TRIM_BYTES = 16 << 20


@dataclass(frozen=True)
class _Place:
    """Bytes `low` to `high` hold pattern, except where the tensor's elements lie."""

    low: int
    high: int


class Board:
    """A sealed anonymous file of `size` bytes (sparse), mapped by the judge and by one child.

    Every tensor that is put gets fences of `FENCE` bytes before and after it, and its gaps, if its strides
    leave any, filled with 0xFF: NaN for every floating dtype, so that what is read there shows in the output.
    Sealed: a child that cuts the file short would take the judge down with it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create("kernelwright-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(
            self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        )
        self._mapping = mmap.mmap(self.descriptor, size)
        self._bytes = torch.frombuffer(self._mapping, dtype=torch.uint8)
        self._raw = self._bytes.numpy()
        self._top = LOG_BYTES
        self._places: dict[int, _Place] = {}

    def mark(self) -> int:
        """Where the next place will be; for `release`."""
        return self._top

    def release(self, mark: int) -> None:
        """Forget every place made since `mark`."""
        if self._top - mark >= _TRIM_BYTES:
            first = _up(mark, PAGE)
            self._mapping.madvise(mmap.MADV_REMOVE, first, _up(self._top, PAGE) - first)
        self._places = {lo: place for lo, place in self._places.items() if place.high <= mark}
        self._top = mark

    def put(
        self,
        tensor: Tensor,
        *,
        grad: bool = False,
        guard: Guard | None = None,
        offset: int = 0,
    ) -> Node:
        """Copy a tensor to a new place, with its shape and strides (expanded ones stay expanded).

        `grad`: the child sees it as a leaf that requires a gradient. `guard`: the page right before or after
        it cannot be touched by the child during a call: it dies with SIGSEGV. `offset`: the child sees it at
        this storage offset, in elements. Raises MemoryError when the board is full, TreeError for a dtype
        that cannot be handed over.
        """
        dtype = tree.dtype_name(tensor.dtype)
        item = tree.item_size(dtype)
        lead = offset * item
        nbytes = tree.span(tensor.shape, tensor.stride()) * item
        low, lo = self._place(lead + nbytes, guard)
        high = lo + lead + nbytes + (0 if guard == "after" else FENCE)
        node = tree.tensor_node(dtype, tensor.shape, tensor.stride(), lo + lead)
        node["lo"] = lo
        if grad:
            node["grad"] = True
        if guard == "before":
            node["guard"] = [low - PAGE, PAGE]
        elif guard == "after":
            node["guard"] = [high, PAGE]
        self._places[node["lo"]] = _Place(low, high)
        self._top = high + (PAGE if guard == "after" else 0)
        self.rewrite(node, tensor)
        return node

    def another(self, node: Node) -> Node:
        """One more place like that of `node`, with its fences and whatever else; the contents come later."""
        lead = node["at"] - node["lo"]
        low, lo = self._place(lead + node["nbytes"], None)
        place = _Place(low, lo + lead + node["nbytes"] + FENCE)
        copy = {**node, "lo": lo, "at": lo + lead}
        self._places[lo], self._top = place, place.high
        self._fence(copy, place, gaps=False)
        return copy

    def put_tree(self, value: Any, **options: Any) -> Node:
        """Copy a value of tensors, tuples, lists, dicts and scalars; `options` as for `put`."""
        return tree.encode(value, lambda tensor: self.put(tensor, **options))

    def adopt(self, node: Node, source: Board, **options: Any) -> Node:
        """Copy a tree whose tensors are in another board into this one; `options` as for `put`."""
        return tree.map_tensors(node, lambda one: self.put(source.tensor(one), **options))

    def room(self, nbytes: int) -> int:
        """The offset of `nbytes` for what a child writes; what they hold is not said."""
        at = _up(self._top, PAGE)
        if at + nbytes > self.size:
            raise MemoryError(_full(self.size, nbytes))
        self._top = at + nbytes
        return at

    def tensor(self, node: Node) -> Tensor:
        """The memory of a tensor node, in place; the child may change it any time."""
        return tree.tensor_in(self._mapping, {**node, "grad": False})

    def copy(self, node: Node) -> Tensor:
        """A private copy of a tensor node, with its strides."""
        count = node["nbytes"]
        if not count:
            return torch.empty_strided(node["shape"], node["strides"], dtype=tree.DTYPES[node["dtype"]])
        raw = self._bytes[node["at"] : node["at"] + count].clone()
        return raw.view(tree.DTYPES[node["dtype"]]).as_strided(node["shape"], node["strides"])

    def rewrite(self, node: Node, tensor: Tensor) -> None:
        """New contents, same place; fences and gaps are restored too."""
        place = self._places[node["lo"]]
        if not node["nbytes"]:
            self._fence(node, place, gaps=True)
            return
        # Elements that share memory are equal, so the order in which they are written does not matter.
        target = _distinct(self.tensor(node), node["strides"])
        source = _distinct(tensor.detach(), node["strides"])
        self._fence(node, place, gaps=target.nbytes < node["nbytes"])
        _bits(target).copy_(_bits(source))

    def _fence(self, node: Node, place: _Place, *, gaps: bool) -> None:
        if gaps:
            self._raw[place.low : place.high] = PATTERN
        else:
            self._raw[place.low : node["at"]] = PATTERN
            self._raw[node["at"] + node["nbytes"] : place.high] = PATTERN

    def populate(self, mark: int) -> None:
        """Have the memory of all places since `mark`, at once instead of page by page as it is touched."""
        first = mark // PAGE * PAGE
        with contextlib.suppress(OSError, ValueError):  # an older kernel, where it comes page by page
            self._mapping.madvise(_MADV_POPULATE_WRITE, first, _up(self._top, PAGE) - first)

    def holds(self, node: Node, tensor: Tensor) -> bool:
        """Whether the place holds the bits of `tensor` (same shape and dtype), NaN bits included."""
        mine = self.tensor(node)
        if mine.shape != tensor.shape or mine.dtype != tensor.dtype:
            return False
        return torch.equal(_bits(mine), _bits(tensor.detach()))

    def harm(self, node: Node) -> str:
        """What was written around the tensor: into its fences or gaps, in words; "" when nothing was."""
        place = self._places[node["lo"]]
        at, end = node["at"], node["at"] + node["nbytes"]
        counts = {
            "before it": _written(self._bytes[place.low : at]),
            "after it": _written(self._bytes[end : place.high]),
        }
        if node["nbytes"] > _distinct(self.tensor(node), node["strides"]).nbytes:
            inside = self._bytes[at:end].clone()
            elements = inside.view(tree.DTYPES[node["dtype"]]).as_strided(node["shape"], node["strides"])
            bits = _bits(_distinct(elements, node["strides"]))
            bits.fill_(PATTERN if bits.element_size() == 1 else -1)
            counts["between its rows"] = _written(inside)
        return ", ".join(f"{count} bytes {where}" for where, count in counts.items() if count)

    def log(self) -> bytes:
        """What the child noted in the first bytes of the board, up to the first zero byte."""
        return bytes(self._mapping[:LOG_BYTES]).split(b"\0", 1)[0]

    def close(self) -> None:
        """Give the memory back; views of it must not be used any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._mapping.madvise(mmap.MADV_REMOVE, 0, self.size)

    def _place(self, nbytes: int, guard: Guard | None) -> tuple[int, int]:
        """Where the fence of a new place begins, and where its tensor does."""
        if guard == "before":
            low = lo = _up(self._top, PAGE) + PAGE
        elif guard == "after":
            # The last element ends where the page does; what alignment that leaves is the dtype's.
            lo = _up(self._top + FENCE + nbytes, PAGE) - nbytes
            low = lo - FENCE
        else:
            low = _up(self._top, _ALIGN)
            lo = low + FENCE
        if lo + nbytes + FENCE + PAGE > self.size:
            raise MemoryError(_full(self.size, nbytes))
        return low, lo


def _full(size: int, nbytes: int) -> str:
    return f"the board of {size} bytes has no {nbytes} bytes left"


def _up(value: int, align: int) -> int:
    return (value + align - 1) // align * align


def _written(raw: Tensor) -> int:
    return int(raw.ne(PATTERN).sum())


def _distinct(tensor: Tensor, strides: Sequence[int]) -> Tensor:
    """The tensor without the repetition that `strides` mean: one index along each expanded dimension."""
    for dim, step in enumerate(strides):
        if step == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: Tensor) -> Tensor:
    """The elements as integers, whose equality is that of bits; in place where the tensor is not lazy."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype == torch.complex128:
        tensor = torch.view_as_real(tensor)
    return tensor.view(_WORDS[tensor.element_size()])
