"""The plans of an operator: the one used last, one a shape and dtype, and behind them every exact key seen.

A table is replaced as a whole when plans become void. A call reads the table once; what it stores goes to the
table it read, so that a plan made before a change never serves a call made after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

try:
    from torch._C._dynamo import guards as _guards
except ImportError:  # private to torch; without it every hit takes the exact key
    _guards = None  # type: ignore[assignment]

#: Exact keys that a table keeps; beyond it the oldest go.
MAX_PLANS = 2048

#: Values that may be recognised by identity, since nothing can change them.
_IMMUTABLE = (type(None), bool, int, float, complex, str, torch.dtype, torch.device)

#: (check of the tensors, plan, values that must be identical...).
Entry = tuple[Any, ...]


def _no_check(*_: Any) -> bool:
    return False


class Table:
    """Entries for calls without an output and with one, and the exact plans.

    An entry holds a check that compares all tensors of a call with those it was made from (type, dtype,
    device, sizes, strides, requires_grad, dispatch keys) in one call into torch, where the exact key takes
    ten times as long.
    """

    __slots__ = ("front", "lock", "never", "out_front", "out_shapes", "plans", "shapes")

    def __init__(self, values: int) -> None:
        """`values` is how many values an entry compares by identity."""
        #: An entry that matches no call.
        self.never: Entry = (_no_check, None, *[None] * values)
        self.front: Entry = self.never
        self.out_front: Entry = self.never
        #: Shape and dtype of the first tensor → the entry that last served it.
        self.shapes: dict[Any, Entry] = {}
        self.out_shapes: dict[Any, Entry] = {}
        self.plans: dict[Any, Entry] = {}
        self.lock = threading.Lock()

    def keep(self, key: Any, entry: Entry) -> None:
        """Store a plan under its exact key, dropping the oldest beyond the bound."""
        try:
            hash(key)
        except TypeError:  # symbolic sizes, a value without a hash: planned anew each time
            return
        with self.lock:
            _put(self.plans, key, entry)

    def promote(self, key: Any, entry: Entry, tensors: Sequence[Tensor], *, out: bool) -> None:
        """Bring the entry of a call that hit its exact key to the front.

        The key does not tell inference mode or autocast from their absence, the check does; so an entry made
        under another mode is made anew.
        """
        check, *rest = entry
        if check is _no_check:
            return
        if not check(*tensors):
            entry = (make_check(tensors), *rest)
            self.keep(key, entry)
        with self.lock:
            first = tensors[0]
            _put(self.out_shapes if out else self.shapes, (first.shape, first.dtype), entry)
        if out:
            self.out_front = entry
        else:
            self.front = entry


def _put(entries: dict[Any, Entry], key: Any, entry: Entry) -> None:
    while len(entries) >= MAX_PLANS:
        del entries[next(iter(entries))]
    entries[key] = entry


def make_entry(plan: Callable[..., Any], tensors: Sequence[Tensor], values: Sequence[Any]) -> Entry:
    """An entry for calls like this one; never matched in front if a value could change under its identity."""
    stable = all(type(value) in _IMMUTABLE for value in values)
    return (make_check(tensors) if stable else _no_check, plan, *values)


def make_check(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """A check that holds for tensors like these.

    It sees `requires_grad` but not whether gradients are switched on; an entry compares that as a value.
    """
    # The check refuses one tensor given twice, so such calls take the exact key.
    if _guards is None or len({id(tensor) for tensor in tensors}) != len(tensors) or not tensors:
        return _no_check
    sizes: list[Any] = [list(tensor.shape) for tensor in tensors]
    strides: list[Any] = [list(tensor.stride()) for tensor in tensors]
    check: Callable[..., bool] = _guards.TensorGuards(
        *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
    ).check
    return check
