"""Arguments of timed calls: many places, whose contents are new for every batch.

What a kernel could remember of a call is where its inputs lay, some of their elements, or all of them. So
before each batch every slot gets changes: single elements at random places in each floating tensor, which
costs next to nothing, and for some of the slots all contents, those of another draw of the inputs. Which
slots are called, and in what order, is drawn as well. The judge keeps what each slot holds by itself, never
by looking at memory that the performer can write: drawn contents, and a log of the changes since.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._tree import Node

#: Elements changed in each floating tensor of a slot, each time.
CHANGES = 3
#: The share of slots that get all contents anew each time.
ANEW = 0.25
#: After so many renewals all slots are written anew, and what is logged of them is forgotten.
_LOGGED = 24
_TRIES = 8

_WORDS: Mapping[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

Draw = tuple[Sequence[Node], Sequence[Tensor]]
"""The arguments of one call: trees, and the tensors in them, in order."""


@dataclass(frozen=True)
class _Place:
    """One tensor of the arguments: its node in slot 0, and whether single elements of it may change."""

    node: Node
    changes: bool
    word: Any
    sizes: NDArray[np.int64]
    strides: NDArray[np.int64]

    def offsets(self, random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Random elements, as distances from the first in elements."""
        found = np.zeros(shape, dtype=np.int64)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            found += random.integers(0, size, size=shape) * stride
        return found


@dataclass(frozen=True)
class _Change:
    """Elements of one tensor that were given new values in all slots: [slot, change]."""

    place: int
    offsets: NDArray[np.int64]
    values: NDArray[Any]


class Slots:
    """`count` sets of arguments in a board, filled from `draws`, the arguments of different seeds.

    All draws have tensors of the same dtypes, shapes and strides, and the same other arguments. `single`:
    whether single elements may be changed at all; some references take only inputs of a certain structure.
    """

    def __init__(
        self,
        board: Board,
        draws: Sequence[Draw],
        count: int,
        *,
        seed: int,
        single: bool = True,
    ) -> None:
        self._board = board
        self._random = np.random.default_rng(seed)
        mark = board.mark()
        self.arguments = [put(board, draws[0])]
        for distance in self._random.integers(0, 64, size=count - 1):
            # Places at unequal distances, so that no two slots map to the same sets of a cache.
            board.room(int(distance) * 64)
            self.arguments.append([tree.map_tensors(one, board.another) for one in self.arguments[0]])
        board.populate(mark)
        self._nodes = [nodes_of(arguments) for arguments in self.arguments]
        self._draws = [list(tensors) for _, tensors in draws]
        self._places = [self._place(index, single) for index in range(len(self._draws[0]))]
        self._held = [self._raw(index) for index in range(len(self._places))]
        self._originals = [self._original(index) for index in range(len(self._places))]
        # The board as words of each tensor's size, and where in it the tensor begins in each slot.
        self._words = [self._all_words(place.word) for place in self._places]
        self._first = [self._firsts(index) for index in range(len(self._places))]
        self._draw_of = np.zeros(count, dtype=np.int64)
        # Where in the log the changes of what a slot holds begin, and the shortest log that tells all of it.
        self._since = np.zeros(count, dtype=np.int64)
        self._known = np.zeros(count, dtype=np.int64)
        self._log: list[list[_Change]] = []
        self._write(range(count), self._random.integers(0, len(draws), size=count))

    def __len__(self) -> int:
        return len(self.arguments)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors of one slot, each counted once."""
        return sum(int(node["nbytes"]) for node in self._nodes[0])

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where the tensors of all slots lie: address here and bytes."""
        return [(held.__array_interface__["data"][0], held.nbytes) for kind in self._held for held in kind]

    def order(self, calls: int) -> list[int]:
        """Slots for so many calls: all of them before any comes again."""
        rounds = -(-calls // len(self))
        drawn = np.concatenate([self._random.permutation(len(self)) for _ in range(rounds)])
        return [int(one) for one in drawn[:calls]]

    def renew(self) -> None:
        """New contents in all slots; see the head of this module."""
        self.prepare()
        self.touch()

    def prepare(self) -> None:
        """The part of `renew` that takes time: some slots are written anew, and what will change is drawn."""
        whole = len(self._log) >= _LOGGED
        anew = np.flatnonzero(self._random.random(len(self)) < (1.0 if whole else ANEW))
        if whole:
            self._log.clear()
        self._log.append([])
        self._write(anew, self._random.integers(0, len(self._draws), size=len(anew)))
        for index, place in enumerate(self._places):
            if place.changes:
                self._log[-1].append(self._change(index, place))

    def touch(self) -> None:
        """The rest of `renew`: the single elements of all slots change, within some ten microseconds.

        So little lies between this and the calls that nobody could work ahead, and threads that spin after
        the calls before find work before they fall asleep.
        """
        for change in self._log[-1] if self._log else ():
            self._words[change.place][self._first[change.place] + change.offsets] = change.values

    def restore(self) -> None:
        """All slots written anew, in full, and no single changes: for calls that change their arguments."""
        self._log.clear()
        self._write(range(len(self)), self._random.integers(0, len(self._draws), size=len(self)))

    def contents(self, slot: int, *, renewals_ago: int = 0) -> tuple[Tensor, ...]:
        """What the tensors of a slot hold, as private tensors with their strides; or held, so many renewals
        ago. Raises LookupError where that is not known any more."""
        until = len(self._log) - renewals_ago
        if until < self._known[slot]:
            raise LookupError(f"slot {slot} was written anew since")
        found = []
        for index, place in enumerate(self._places):
            bits = self._originals[index][int(self._draw_of[slot])].copy()
            for changes in self._log[int(self._since[slot]) : until]:
                for change in changes:
                    if change.place == index:
                        bits[change.offsets[slot]] = change.values[slot]
            found.append(_tensor(bits, place.node))
        return tuple(found)

    def changed(self, slot: int, names: Sequence[str]) -> str | None:
        """Which tensor of a slot does not hold what was put there, or has something written around it."""
        for name, node, held in zip(names, self._nodes[slot], self.contents(slot), strict=True):
            harm = self._board.harm(node)
            if harm:
                return f"wrote {harm} of its input {name}"
            if not self._board.holds(node, held):
                return f"changed its input {name}"
        return None

    def _place(self, index: int, single: bool) -> _Place:
        node = self._nodes[0][index]
        dtype = tree.DTYPES[node["dtype"]]
        size = tree.item_size(node["dtype"])
        drawn = [draw[index] for draw in self._draws]
        known = size in _WORDS and dtype.is_floating_point and drawn[0].numel() > 1
        finite = known and all(bool(torch.isfinite(one.float()).all()) for one in drawn)
        word = _WORDS.get(size, np.uint8)
        return _Place(node, single and finite, word, np.array(node["shape"]), np.array(node["strides"]))

    def _raw(self, index: int) -> list[NDArray[Any]]:
        """The words of a tensor in each slot, in place."""
        word = self._places[index].word
        return [_flat(self._board, nodes[index]).view(word) for nodes in self._nodes]

    def _all_words(self, word: Any) -> NDArray[Any]:
        count = self._board.size // np.dtype(word).itemsize * np.dtype(word).itemsize
        node = {"t": "tensor", "dtype": "uint8", "shape": [count], "strides": [1], "at": 0, "lo": 0}
        raw: NDArray[np.uint8] = self._board.tensor({**node, "nbytes": count, "grad": False}).numpy()
        return raw.view(word)

    def _firsts(self, index: int) -> NDArray[np.int64]:
        """Where a tensor begins in each slot, in words; as a column beside a slot's offsets."""
        size = np.dtype(self._places[index].word).itemsize
        return np.array([[int(nodes[index]["at"]) // size] for nodes in self._nodes])

    def _original(self, index: int) -> NDArray[Any]:
        """The words of a tensor in each draw, gaps between its elements included: [draw, word]."""
        rows = []
        for draw in self._draws:
            self._board.rewrite(self._nodes[0][index], draw[index])
            rows.append(self._held[index][0].copy())
        return np.stack(rows)

    def _write(self, slots: Sequence[int] | NDArray[np.int64], draws: NDArray[np.int64]) -> None:
        for slot, draw in zip(slots, draws, strict=True):
            for held, originals in zip(self._held, self._originals, strict=True):
                held[slot][:] = originals[draw]
        chosen = np.asarray(slots, dtype=np.int64)
        self._draw_of[chosen] = draws
        self._since[chosen] = max(0, len(self._log) - 1)
        self._known[chosen] = len(self._log)

    def _change(self, index: int, place: _Place) -> _Change:
        """Give elements the values of others of the same draw, at least one of them another value."""
        shape = (len(self), CHANGES)
        held = self._held[index]
        offsets = place.offsets(self._random, shape)
        values = self._values(index, place.offsets(self._random, shape))
        before = np.stack([held[slot][offsets[slot]] for slot in range(len(self))])
        for _ in range(_TRIES):
            # Where a place was drawn twice, the last value is the one that holds, so it has to be new.
            alike = np.flatnonzero(before[:, -1] == values[:, -1])
            if not alike.size:
                break
            values[alike] = self._values(index, place.offsets(self._random, shape))[alike]
        return _Change(index, offsets, values)

    def _values(self, index: int, sources: NDArray[np.int64]) -> NDArray[Any]:
        values: NDArray[Any] = self._originals[index][self._draw_of[:, None], sources]
        return values


def put(board: Board, draw: Draw) -> list[Node]:
    """The arguments in new places of a board."""
    trees, tensors = draw
    left = iter(tensors)
    return [tree.map_tensors(one, lambda _: board.put(next(left))) for one in trees]


def nodes_of(arguments: Sequence[Node]) -> list[Node]:
    """The tensor nodes of a call's arguments, in order."""
    return [node for one in arguments for node in tree.tensors_of(one)]


def _flat(board: Board, node: Node) -> NDArray[np.uint8]:
    """The bytes that a tensor spans, in place."""
    count = int(node["nbytes"])
    raw = board.tensor({**node, "dtype": "uint8", "shape": [count], "strides": [1], "lo": node["at"]})
    flat: NDArray[np.uint8] = raw.numpy()
    return flat


def _tensor(words: NDArray[Any], node: Node) -> Tensor:
    dtype = tree.DTYPES[node["dtype"]]
    if not node["nbytes"]:
        return torch.empty_strided(node["shape"], node["strides"], dtype=dtype)
    raw = torch.from_numpy(words.view(np.uint8)).view(dtype)
    return raw.as_strided(node["shape"], node["strides"])
