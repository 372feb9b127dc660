"""The memory that the judge shares with one child: places for tensors, with fences around them."""

from __future__ import annotations

from typing import Any
from typing import Literal

from torch import Tensor

Node = dict[str, Any]
Guard = Literal["before", "after"]


class Board:
    """A sealed anonymous file of `size` bytes (sparse), mapped by the judge and by one child.

    Every tensor that is put gets fences of `FENCE` bytes before and after it, and its gaps, if its strides
    leave any, filled with 0xFF: NaN for every floating dtype, so that what is read there shows in the output.
    """

    descriptor: int
    size: int

    def __init__(self, size: int) -> None: ...

    def mark(self) -> int:
        """Where the next place will be; for `release`."""
        raise NotImplementedError

    def release(self, mark: int) -> None:
        """Forget every place made since `mark`."""
        raise NotImplementedError

    def put(self, tensor: Tensor, *, grad: bool = False, guard: Guard | None = None, offset: int = 0) -> Node:
        """Copy a tensor to a new place, with its shape and strides (expanded ones stay expanded).

        `grad`: the child sees it as a leaf that requires a gradient. `guard`: the page right before or after
        it cannot be touched by the child during a call: it dies with SIGSEGV. `offset`: the child sees it at
        this storage offset, in elements. Raises MemoryError when the board is full.
        """
        raise NotImplementedError

    def put_tree(self, value: Any, **options: Any) -> Node:
        """Copy a value of tensors, tuples, lists, dicts and scalars; `options` as for `put`."""
        raise NotImplementedError

    def adopt(self, node: Node, source: Board, **options: Any) -> Node:
        """Copy a tree whose tensors are in another board into this one; `options` as for `put`."""
        raise NotImplementedError

    def room(self, nbytes: int) -> int:
        """The offset of `nbytes` filled with nothing in particular, fenced, for what a child writes."""
        raise NotImplementedError

    def tensor(self, node: Node) -> Tensor:
        """The memory of a tensor node, in place; the child may change it any time."""
        raise NotImplementedError

    def copy(self, node: Node) -> Tensor:
        """A private copy of a tensor node, with its strides."""
        raise NotImplementedError

    def rewrite(self, node: Node, tensor: Tensor) -> None:
        """New contents, same place; fences and gaps are restored too."""
        raise NotImplementedError

    def holds(self, node: Node, tensor: Tensor) -> bool:
        """Whether the place holds the bits of `tensor` (same shape and dtype), NaN bits included."""
        raise NotImplementedError

    def harm(self, node: Node) -> str:
        """What was written around the tensor: into its fences or gaps, in words; "" when nothing was."""
        raise NotImplementedError

    def close(self) -> None:
        """Give the memory back; views of it must not be used any more."""
        raise NotImplementedError
