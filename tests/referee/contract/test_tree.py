"""Values as JSON: what goes to a child comes back the same, and what a child says is checked."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._board import LOG_BYTES

Pair = namedtuple("Pair", "first second")


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board(1 << 24)
    yield made
    made.close()


def there_and_back(board: Board, value: object) -> Any:
    """Through JSON, as a message goes."""
    node = json.loads(json.dumps(board.put_tree(value)))
    return tree.decode(node, board.copy, pickles=True)


_SCALARS = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-(2**70), 2**70)
    | strategies.floats(allow_nan=False)
    | strategies.text(max_size=20)
    | strategies.complex_numbers(allow_nan=False)
)
_VALUES = strategies.recursive(
    _SCALARS,
    lambda one: (
        strategies.lists(one, max_size=3)
        | strategies.tuples(one, one)
        | strategies.dictionaries(strategies.text(max_size=5), one, max_size=3)
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_values_without_tensors_come_back_the_same(value: object) -> None:
    node = json.loads(json.dumps(tree.encode(value, lambda tensor: {}, odd="refuse")))
    back = tree.decode(node, lambda node: None)
    assert back == value
    assert repr(back) == repr(value)  # 1, 1.0 and True are equal, and not the same


@pytest.mark.parametrize("name", sorted(tree.DTYPES))
def test_tensors_of_every_dtype_keep_their_bits(board: Board, name: str) -> None:
    raw = torch.randint(0, 2 if name == "bool" else 256, (6, 16), dtype=torch.uint8)
    tensor = raw.view(tree.DTYPES[name])
    back = there_and_back(board, tensor)
    assert back.dtype == tensor.dtype
    assert torch.equal(back.view(torch.uint8), raw)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).view(4, 6).t(),
        torch.arange(24.0).view(4, 6)[:, ::2],
        torch.arange(4.0)[:, None].expand(4, 5),
        torch.tensor(3.0),
        torch.empty(0, 7),
        torch.empty(3, 0, 2).permute(2, 0, 1),
    ],
    ids=["transposed", "strided", "expanded", "scalar", "empty", "empty_permuted"],
)
def test_tensors_keep_shape_and_strides(board: Board, tensor: torch.Tensor) -> None:
    back = there_and_back(board, tensor)
    assert back.shape == tensor.shape
    assert back.stride() == tensor.stride()
    assert torch.equal(back, tensor)


def test_nested_values_keep_their_order(board: Board) -> None:
    value = {"a": [torch.tensor(1), (torch.tensor(2), None)], "b": torch.tensor(3)}
    node = board.put_tree(value)
    assert [int(board.copy(one)) for one in tree.tensors_of(node)] == [1, 2, 3]
    assert [*tree.paths_of(node)] == ["['a'][0]", "['a'][1][0]", "['b']"]


def test_a_tuple_of_another_type_names_it() -> None:
    node = tree.encode(Pair(1, 2), lambda tensor: {})
    assert node["type"] == "Pair"
    assert tree.decode(node, lambda node: None) == (1, 2)


def test_dtypes_and_devices_come_back(board: Board) -> None:
    assert there_and_back(board, [torch.bfloat16, torch.device("cpu")]) == [
        torch.bfloat16,
        torch.device("cpu"),
    ]


def test_odd_arguments_are_pickled_and_only_a_child_reads_them(board: Board) -> None:
    node = board.put_tree([slice(1, 5, 2)])
    assert tree.decode(node, board.copy, pickles=True) == [slice(1, 5, 2)]
    with pytest.raises(tree.TreeError, match="slice"):
        tree.decode(node, board.copy)


def test_odd_outputs_are_described() -> None:
    node = tree.encode({1, 2}, lambda tensor: {}, odd="describe")
    assert node == {"t": "other", "type": "set", "said": ""}


def test_what_cannot_be_handed_over_is_said() -> None:
    with pytest.raises(tree.TreeError, match="function"):
        tree.encode(lambda: None, lambda tensor: {})
    with pytest.raises(tree.TreeError, match="4096 parts"):
        tree.encode([0] * 5000, lambda tensor: {})
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(tree.TreeError, match="deep"):
        tree.encode(nested, lambda tensor: {})
    with pytest.raises(tree.TreeError, match="quint8"):
        tree.dtype_name(torch.quint8)


# What a child sends is data.

GOOD = {"t": "tensor", "dtype": "float32", "shape": [2, 3], "strides": [3, 1], "at": LOG_BYTES}


def test_a_checked_tensor_has_nothing_of_the_childs_but_its_place() -> None:
    said = {**GOOD, "lo": 0, "nbytes": 1 << 40, "grad": True, "guard": [0, 1 << 30]}
    assert tree.checked(said, low=LOG_BYTES, high=LOG_BYTES + 24) == {
        **GOOD,
        "lo": LOG_BYTES,
        "nbytes": 24,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"at": LOG_BYTES - 4},
        {"at": LOG_BYTES + 4},
        {"at": LOG_BYTES + 1},
        {"at": None},
        {"at": True},
        {"at": float("nan")},
        {"shape": [2, 4]},
        {"strides": [-3, 1]},
        {"strides": [3]},
        {"shape": [2.0, 3]},
        {"shape": [True, 3]},
        {"shape": "23"},
        {"shape": [1 << 60, 1 << 60]},
        {"dtype": "float33"},
        {"dtype": ["float32"]},
        {"t": "tensors"},
    ],
    ids=str,
)
def test_a_tensor_outside_its_memory_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(tree.TreeError):
        tree.checked({**GOOD, **change}, low=LOG_BYTES, high=LOG_BYTES + 24)


@pytest.mark.parametrize(
    "node",
    [
        None,
        [],
        {},
        {"t": "value", "v": []},
        {"t": "complex", "v": [1]},
        {"t": "list", "items": {}},
        {"t": "dict", "items": []},
        {"t": "list", "items": [None]},
        {"t": "list", "items": [{"t": "value", "v": 1}] * 5000},
        {"t": ["list"], "items": []},
    ],
    ids=lambda node: str(node)[:40],
)
def test_what_is_no_node_is_refused(node: object) -> None:
    with pytest.raises(tree.TreeError):
        tree.checked(node, low=0, high=100)


def test_a_tree_too_deep_is_refused() -> None:
    node: dict[str, Any] = {"t": "value", "v": 1}
    for _ in range(200):
        node = {"t": "list", "items": [node]}
    with pytest.raises(tree.TreeError):
        tree.checked(node, low=0, high=100)
