"""Values as JSON: arguments on their way to a child, outputs on their way back.

A node is a JSON object, told by its `t`:

    {"t": "tensor", "dtype": "bfloat16", "shape": [..], "strides": [..], "at": A, "lo": L, "nbytes": N}
    {"t": "value", "v": None | bool | int | float | str}
    {"t": "complex", "v": [real, imaginary]}
    {"t": "dtype" | "device", "v": "float32" | "cpu"}
    {"t": "list" | "tuple", "items": [..]}          a tuple of another type names it: "type": "max"
    {"t": "dict", "items": {name: node}}
    {"t": "pickle", "b64": ".."}                    odd arguments; only a child decodes it
    {"t": "other", "type": "..", "said": ".."}      what has no other node, in words

A tensor lies in a board: `at` is the offset in bytes of its first element, `lo` that of its lowest byte,
`nbytes` what it spans from there. Further keys: `grad` (a leaf that requires a gradient), `missing` (an
output whose bytes were not copied; the words say why).

This module runs on both sides and needs torch alone. What it takes from torch, it takes when it is imported,
so that a candidate that patches torch later does not change it.
"""

from __future__ import annotations

import base64
import mmap
import pickle
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import torch

Node = dict[str, Any]

MAX_NODES = 4096
MAX_DEPTH = 32
_MAX_TEXT = 4096
_MAX_BITS = 1024
_MAX_NDIM = 64

_KNOWN = (
    *("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "complex32", "bool"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _KNOWN if hasattr(torch, name)}
"""The dtypes whose tensors can be handed over, by torch's name."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_SIZES = {name: dtype.itemsize for name, dtype in DTYPES.items()}

_Tensor = torch.Tensor
_dtype = torch.dtype
_device = torch.device
_uint8 = torch.uint8
_frombuffer = torch.frombuffer
_empty_strided = torch.empty_strided
_view = torch.Tensor.view
_as_strided = torch.Tensor.as_strided
_requires_grad = torch.Tensor.requires_grad_
_loads = pickle.loads
_dumps = pickle.dumps
_b64decode = base64.b64decode
_b64encode = base64.b64encode


class TreeError(ValueError):
    """A value that cannot be handed over, or a node that is none."""


def dtype_name(dtype: torch.dtype) -> str:
    """Torch's name of a dtype. Raises TreeError for one whose tensors cannot be handed over."""
    try:
        return NAMES[dtype]
    except KeyError:
        raise TreeError(f"a tensor of {dtype} cannot be handed over; known: {', '.join(DTYPES)}") from None


def item_size(name: str) -> int:
    """Bytes of one element of the dtype of that name."""
    return _SIZES[name]


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements lie between the first and the last, both included; 0 for an empty tensor."""
    reach = 1
    for size, step in zip(shape, strides, strict=True):
        if size == 0:
            return 0
        reach += (size - 1) * step
    return reach


def tensor_node(dtype: str, shape: Sequence[int], strides: Sequence[int], at: int) -> Node:
    """The node of a tensor whose first element is at byte `at` of a board."""
    nbytes = span(shape, strides) * _SIZES[dtype]
    return {
        "t": "tensor",
        "dtype": dtype,
        "shape": [*shape],
        "strides": [*strides],
        "at": at,
        "lo": at,
        "nbytes": nbytes,
    }


def tensor_in(mapping: mmap.mmap, node: Mapping[str, Any]) -> torch.Tensor:
    """The tensor of a node, in place, in a storage of its own that begins at `lo`."""
    dtype = DTYPES[node["dtype"]]
    shape, strides = node["shape"], node["strides"]
    if not node["nbytes"]:
        tensor = _empty_strided(shape, strides, dtype=dtype)
    else:
        lead = node["at"] - node["lo"]
        raw = _frombuffer(mapping, dtype=_uint8, count=lead + node["nbytes"], offset=node["lo"])
        tensor = _as_strided(_view(raw, dtype), shape, strides, lead // _SIZES[node["dtype"]])
    if node.get("grad"):
        _requires_grad(tensor)
    return tensor


def encode(value: object, place: Callable[[torch.Tensor], Node], *, odd: str = "pickle") -> Node:
    """The tree of a value; `place` gives the node of each tensor.

    What has no node of its own is pickled, described (`odd="describe"`), or an error (`odd="refuse"`): raises
    TreeError, as for a tree that is too large or too deep.
    """
    return _Encoder(place, odd).node(value, 0)


class _Encoder:
    def __init__(self, place: Callable[[torch.Tensor], Node], odd: str) -> None:
        self._place = place
        self._odd = odd
        self._count = 0

    def node(self, value: object, depth: int) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise TreeError(f"a value of more than {MAX_NODES} parts cannot be handed over")
        if depth > MAX_DEPTH:
            raise TreeError(f"a value nested more than {MAX_DEPTH} deep cannot be handed over")
        # A subclass of tensor has an own idea of everything, so only the exact type is asked for what it is;
        # a place for others is for `place` to refuse.
        if isinstance(value, _Tensor):
            return self._place(value)
        kind = type(value)
        if value is None or kind in (bool, float):
            return {"t": "value", "v": value}
        if kind is int and value.bit_length() <= _MAX_BITS:  # type: ignore[attr-defined]
            return {"t": "value", "v": value}
        if kind is str and len(value) <= _MAX_TEXT:  # type: ignore[arg-type]
            return {"t": "value", "v": value}
        if isinstance(value, complex) and kind is complex:
            return {"t": "complex", "v": [value.real, value.imag]}
        if isinstance(value, _dtype):
            return {"t": "dtype", "v": str(value).removeprefix("torch.")}
        if isinstance(value, _device):
            return {"t": "device", "v": str(value)}
        if kind is list:
            return {"t": "list", "items": [self.node(one, depth + 1) for one in value]}  # type: ignore[attr-defined]
        if isinstance(value, tuple):
            node: Node = {"t": "tuple", "items": [self.node(one, depth + 1) for one in tuple(value)]}
            if kind is not tuple:
                node["type"] = kind.__name__[:100]
            return node
        if isinstance(value, dict) and all(type(name) is str and len(name) <= 200 for name in value):
            node = {"t": "dict", "items": {name: self.node(one, depth + 1) for name, one in value.items()}}
            if kind is not dict:
                node["type"] = kind.__name__[:100]
            return node
        return self._other(value)

    def _other(self, value: object) -> Node:
        if self._odd == "describe":
            return {"t": "other", "type": type_name(value), "said": ""}
        if self._odd == "pickle":
            try:
                data = _dumps(value)
            except Exception as error:
                raise TreeError(
                    f"a {type_name(value)} cannot be handed to another process: {error}"
                ) from error
            return {"t": "pickle", "b64": _b64encode(data).decode(), "type": type_name(value)}
        raise TreeError(f"a {type_name(value)} cannot be handed over")


def type_name(value: object) -> str:
    """The type of a value, with its module unless it is a builtin."""
    kind = type(value)
    module, name = kind.__module__, kind.__qualname__
    if not (type(module) is str and type(name) is str):
        return "object of a type without a name"
    return (name if module == "builtins" else f"{module}.{name}")[:200]


def decode(
    node: Mapping[str, Any], tensor: Callable[[Mapping[str, Any]], Any], *, pickles: bool = False
) -> Any:
    """The value of a tree; `tensor` gives what stands for each tensor node, in order.

    Pickled values are only decoded with `pickles`, that is in a child. A tuple of another type becomes a
    plain one. Raises TreeError.
    """
    kind = node["t"]
    if kind == "tensor":
        return tensor(node)
    if kind == "value":
        return node["v"]
    if kind == "complex":
        return complex(*node["v"])
    if kind == "dtype":
        return DTYPES[node["v"]]
    if kind == "device":
        return _device(node["v"])
    if kind == "list":
        return [decode(one, tensor, pickles=pickles) for one in node["items"]]
    if kind == "tuple":
        return tuple([decode(one, tensor, pickles=pickles) for one in node["items"]])
    if kind == "dict":
        return {name: decode(one, tensor, pickles=pickles) for name, one in node["items"].items()}
    if kind == "pickle" and pickles:
        try:
            return _loads(_b64decode(node["b64"]))
        except Exception as error:
            raise TreeError(f"a {node.get('type', 'value')} could not be handed over: {error}") from error
    raise TreeError(f"a {node.get('type', kind)} cannot be handed over")


def tensors_of(node: Mapping[str, Any]) -> Iterator[Node]:
    """The tensor nodes of a tree, in order."""
    if node["t"] == "tensor":
        yield dict(node)
    elif node["t"] in ("list", "tuple"):
        for one in node["items"]:
            yield from tensors_of(one)
    elif node["t"] == "dict":
        for one in node["items"].values():
            yield from tensors_of(one)


def paths_of(node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Where in the value each tensor of `tensors_of` is: "" for the value itself, "[0]['a']"."""
    if node["t"] == "tensor":
        yield path
    elif node["t"] in ("list", "tuple"):
        for index, one in enumerate(node["items"]):
            yield from paths_of(one, f"{path}[{index}]")
    elif node["t"] == "dict":
        for name, one in node["items"].items():
            yield from paths_of(one, f"{path}[{name!r}]")


def map_tensors(node: Mapping[str, Any], change: Callable[[Node], Node]) -> Node:
    """The same tree with another node for each tensor, in order."""
    if node["t"] == "tensor":
        return change(dict(node))
    if node["t"] in ("list", "tuple"):
        return {**node, "items": [map_tensors(one, change) for one in node["items"]]}
    if node["t"] == "dict":
        return {**node, "items": {name: map_tensors(one, change) for name, one in node["items"].items()}}
    return dict(node)


def checked(node: object, *, low: int, high: int) -> Node:
    """A tree that a child sent, with nothing in it but what the nodes above have.

    Its tensors lie between the bytes `low` and `high` of the board. Raises TreeError; nothing else.
    """
    return _Checker(low, high).node(node, 0)


class _Checker:
    def __init__(self, low: int, high: int) -> None:
        self._low = low
        self._high = high
        self._count = 0

    def node(self, node: object, depth: int) -> Node:
        self._count += 1
        if self._count > MAX_NODES or depth > MAX_DEPTH:
            raise TreeError("a tree with too many or too deep nodes")
        if not isinstance(node, dict):
            raise TreeError(f"a node that is a {type(node).__name__}")
        kind = node.get("t")
        value = node.get("v")
        if kind == "tensor":
            return self._tensor(node)
        if kind == "value" and (value is None or isinstance(value, bool | int | float | str)):
            return {"t": kind, "v": value}
        if kind == "complex" and _numbers(value, 2):
            return {"t": kind, "v": value}
        if kind in ("dtype", "device") and isinstance(value, str):
            return {"t": kind, "v": value[:100]}
        if kind in ("list", "tuple") and isinstance(node.get("items"), list):
            made: Node = {"t": kind, "items": [self.node(one, depth + 1) for one in node["items"]]}
            return _with_type(made, node)
        if kind == "dict" and isinstance(node.get("items"), dict):
            made = {"t": kind, "items": {k: self.node(v, depth + 1) for k, v in node["items"].items()}}
            return _with_type(made, node)
        if kind == "other":
            return {"t": kind, "type": _text(node.get("type")), "said": _text(node.get("said"))}
        if kind == "pickle" and isinstance(node.get("b64"), str):
            return _with_type({"t": kind, "b64": node["b64"]}, node)
        raise TreeError(f"a node of kind {str(kind)[:40]!r} with contents that it cannot have")

    def _tensor(self, node: Mapping[str, Any]) -> Node:
        if "missing" in node:
            return {"t": "tensor", "missing": _text(node["missing"])}
        dtype: Any = node.get("dtype")
        shape: Any = node.get("shape")
        strides: Any = node.get("strides")
        known = isinstance(dtype, str) and dtype in _SIZES
        if not (known and _naturals(shape) and _naturals(strides) and len(shape) == len(strides)):
            raise TreeError("a tensor node without a known dtype, shape and strides")
        at = node.get("at")
        if type(at) is not int:
            raise TreeError("a tensor node without a place")
        made = tensor_node(dtype, shape, strides, at)
        if made["nbytes"] and not (self._low <= at and at + made["nbytes"] <= self._high):
            raise TreeError("a tensor node outside the memory it may be in")
        if made["nbytes"] and at % _SIZES[dtype]:
            raise TreeError("a tensor node at an odd address")
        return made


def _numbers(value: object, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(type(one) in (int, float) for one in value)


def _naturals(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= _MAX_NDIM
        and all(type(one) is int and 0 <= one < 1 << 48 for one in value)
    )


def _text(value: object) -> str:
    return value[:400] if isinstance(value, str) else ""


def _with_type(made: Node, node: Mapping[str, Any]) -> Node:
    if isinstance(node.get("type"), str):
        made["type"] = node["type"][:200]
    return made
