"""Outputs of a candidate, copied into the board and described; runs beside the candidate.

The first thing that happens to an output is that its bytes are copied, in one `memmove` that keeps the
interpreter's lock. Then it is asked what it is, by functions taken from torch before the candidate was
imported, with torch's interception of calls disabled.
"""

from __future__ import annotations

import ctypes
import mmap
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._tree import Node

_KEPT_CALLS = 8
_KEPT_BYTES = 512 << 20
_ALIGN = 64

_Tensor = torch.Tensor
_no_interception = torch._C.DisableTorchFunction
_data_ptr = torch.Tensor.data_ptr
_stride = torch.Tensor.stride
_size = torch.Tensor.size
_storage_offset = torch.Tensor.storage_offset
_storage = torch.Tensor.untyped_storage
_storage_ptr = torch.UntypedStorage.data_ptr
_storage_nbytes = torch.UntypedStorage.nbytes
_is_conj = torch.Tensor.is_conj
_is_neg = torch.Tensor.is_neg
_is_zero = torch.Tensor._is_zerotensor
_is_cow: Callable[[torch.Tensor], bool] = getattr(torch._C, "_is_cow_tensor", lambda tensor: False)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_dtype = torch._C.TensorBase.__dict__["dtype"].__get__
_device = torch._C.TensorBase.__dict__["device"].__get__
_layout = torch._C.TensorBase.__dict__["layout"].__get__
_requires_grad = torch._C.TensorBase.__dict__["requires_grad"].__get__
_contiguous = torch.Tensor.contiguous
_detach = torch.Tensor.detach
_strided = torch.strided
_memmove = ctypes.PyDLL(None).memmove
_memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memmove.restype = ctypes.c_void_p
_memset = ctypes.PyDLL(None).memset
_memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
_memset.restype = ctypes.c_void_p

Range = tuple[int, int]
"""Addresses: the first, and one after the last."""


def address_of(mapping: mmap.mmap) -> int:
    """Where a mapping begins in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def fill(address: int, value: int, count: int) -> None:
    """Set bytes of memory, without asking torch."""
    _memset(address, value, count)


@dataclass(frozen=True)
class Kept:
    """The outputs of a call, kept alive: their memory cannot be anyone's while they are."""

    number: int
    value: object
    storages: tuple[Range, ...]
    nbytes: int


class Outputs:
    """Copies outputs to the board, and knows those of the last calls."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._base = address_of(mapping)
        self._size = len(mapping)
        self._kept: deque[Kept] = deque()
        self.state: Mapping[str, Range] = {}

    def take(
        self,
        value: object,
        at: int,
        room: int,
        *,
        inputs: Sequence[Mapping[str, Any]] = (),
        number: int | None = None,
        earlier: Sequence[object] | None = None,
    ) -> dict[str, Any]:
        """Copy an output into the `room` bytes at `at`; its tree and the facts of its tensors.

        `inputs` are the nodes of the call's tensor arguments; `earlier` are outputs of calls before it, the
        last one last, by default those that are kept; with a `number`, the output is kept as that call's.
        """
        with _no_interception():
            tensors: list[torch.Tensor] = []
            copier = _Copier(self._base, at, at + room, tensors)
            node = tree.encode(value, copier.place, odd="describe")
            before = (
                [one.storages for one in self._kept]
                if earlier is None
                else [_storages(tensors_in(one)) for one in earlier]
            )
            facts = [
                self._fact(tensor, index, tensors, inputs, before) for index, tensor in enumerate(tensors)
            ]
            if number is not None:
                self._keep(number, value, tensors)
        return {"value": node, "facts": facts, "used": copier.top - at}

    def copy_again(self, value: object, at: int, room: int) -> dict[str, Any]:
        """Copy without description, for a second look."""
        with _no_interception():
            return {"value": tree.encode(value, _Copier(self._base, at, at + room, []).place, odd="describe")}

    def kept(self, number: int) -> object:
        """The output of that earlier call. Raises KeyError when it is no longer kept."""
        for one in self._kept:
            if one.number == number:
                return one.value
        raise KeyError(f"the output of call {number} is no longer kept")

    def forget(self) -> None:
        """Keep none of the earlier outputs any more."""
        self._kept.clear()

    def _keep(self, number: int, value: object, tensors: Iterable[torch.Tensor]) -> None:
        storages = _storages(tensors)
        nbytes = sum(high - low for low, high in storages)
        self._kept.append(Kept(number, value, storages, nbytes))
        while len(self._kept) > _KEPT_CALLS or (
            len(self._kept) > 1 and sum(one.nbytes for one in self._kept) > _KEPT_BYTES
        ):
            self._kept.popleft()

    def _fact(
        self,
        tensor: torch.Tensor,
        index: int,
        tensors: Sequence[torch.Tensor],
        inputs: Sequence[Mapping[str, Any]],
        earlier: Sequence[Sequence[Range]],
    ) -> dict[str, Any]:
        fact: dict[str, Any] = {"type": tree.type_name(tensor), "problem": problem_of(tensor)}
        if type(tensor) is not _Tensor:
            return fact
        fact["type"] = "torch.Tensor"
        fact["dtype"] = str(_dtype(tensor)).removeprefix("torch.")
        fact["device"] = str(_device(tensor))
        fact["layout"] = str(_layout(tensor)).removeprefix("torch.")
        fact["requires_grad"] = bool(_requires_grad(tensor))
        fact["shape"] = [*_size(tensor)]
        reach = storage_range(tensor)
        if reach is None:
            return fact
        fact["strides"] = [*_stride(tensor)]
        fact["offset"] = _storage_offset(tensor)
        fact["storage_bytes"] = reach[1] - reach[0]
        fact["is_conj"] = bool(_is_conj(tensor))
        fact["is_neg"] = bool(_is_neg(tensor))
        fact["shares_input"] = self._shared_input(reach, inputs)
        fact["shares_output"] = next(
            (other for other in range(index) if _meet(reach, storage_range(tensors[other]))), None
        )
        fact["shares_earlier"] = next(
            (
                ago
                for ago, storages in enumerate(reversed(earlier), start=1)
                if any(_meet(reach, storage) for storage in storages)
            ),
            None,
        )
        fact["shares_state"] = next((name for name, own in self.state.items() if _meet(reach, own)), None)
        return fact

    def _shared_input(self, reach: Range, inputs: Sequence[Mapping[str, Any]]) -> int | None:
        for index, node in enumerate(inputs):
            low = self._base + node["lo"]
            if _meet(reach, (low, self._base + node["at"] + node["nbytes"])):
                return index
        return -1 if _meet(reach, (self._base, self._base + self._size)) else None


class _Copier:
    """Places tensors one after the other into a part of the board."""

    def __init__(self, base: int, at: int, end: int, tensors: list[torch.Tensor]) -> None:
        self._base = base
        self._end = end
        self._tensors = tensors
        self.top = at

    def place(self, tensor: torch.Tensor) -> Node:
        self._tensors.append(tensor)
        if problem := problem_of(tensor):
            return {"t": "tensor", "missing": problem}
        dtype = tree.dtype_name(_dtype(tensor))
        shape, strides = [*_size(tensor)], [*_stride(tensor)]
        nbytes = tree.span(shape, strides) * tree.item_size(dtype)
        at = (self.top + _ALIGN - 1) // _ALIGN * _ALIGN
        if at + nbytes > self._end:
            packed = _contiguous(_detach(tensor))
            strides = [*_stride(packed)]
            nbytes = tree.span(shape, strides) * tree.item_size(dtype)
            if at + nbytes > self._end:
                return {
                    "t": "tensor",
                    "missing": f"{nbytes} bytes are more than any output was expected to have",
                }
            tensor = packed
        if nbytes:
            _memmove(self._base + at, _data_ptr(tensor), nbytes)
        self.top = at + nbytes
        return tree.tensor_node(dtype, shape, strides, at)


def problem_of(tensor: torch.Tensor) -> str:
    """Why the bytes of a tensor do not say what it holds, or cannot be had; "" when they do."""
    if type(tensor) is not _Tensor:
        return f"not a torch.Tensor but a {tree.type_name(tensor)}"
    if _is_wrapped(tensor):
        return "a tensor of a functorch transform, not a value"
    if _layout(tensor) is not _strided:
        return f"laid out as {_layout(tensor)}"
    if _device(tensor).type != "cpu":
        return f"on device {_device(tensor)}"
    if _is_zero(tensor):
        return "a tensor of zeros without memory"
    if _dtype(tensor) not in tree.NAMES:
        return f"of dtype {_dtype(tensor)}, which cannot be read"
    if _is_cow(tensor):
        return "a copy that has not been made yet (copy on write)"
    span = tree.span(_size(tensor), _stride(tensor))
    if span and not _data_ptr(tensor):
        return "a tensor without memory"
    return ""


def storage_range(tensor: torch.Tensor) -> Range | None:
    """Addresses of the storage that a tensor lies in; None for one that has none of the usual kind."""
    if type(tensor) is not _Tensor or _is_wrapped(tensor) or _layout(tensor) is not _strided:
        return None
    if _device(tensor).type != "cpu" or _is_zero(tensor):
        return None
    storage = _storage(tensor)
    # Asking a lazy copy for its address would make it, which is not ours to do.
    low = 0 if _is_cow(tensor) else _storage_ptr(storage)
    return low, low + (_storage_nbytes(storage) if low else 0)


def tensors_in(value: object) -> list[torch.Tensor]:
    """The tensors of a value, in the order of its tree."""
    found: list[torch.Tensor] = []

    def place(tensor: torch.Tensor) -> Node:
        found.append(tensor)
        return {"t": "value", "v": None}

    tree.encode(value, place, odd="describe")
    return found


def _storages(tensors: Iterable[torch.Tensor]) -> tuple[Range, ...]:
    return tuple(reach for tensor in tensors if (reach := storage_range(tensor)) is not None)


def _meet(one: Range, other: Range | None) -> bool:
    return other is not None and one[0] < other[1] and other[0] < one[1]
