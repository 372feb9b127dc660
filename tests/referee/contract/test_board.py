"""The board: tensors keep their bits, and what is written around them is seen."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._board import FENCE
from kernelwright.referee.contract._board import PAGE


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board(1 << 26)
    yield made
    made.close()


def write(board: Board, at: int, value: int = 7) -> None:
    """As a kernel that misses its buffer does."""
    board.tensor(tree.tensor_node("uint8", [1], [1], at)).fill_(value)


TENSORS = {
    "rows": torch.arange(12.0).view(3, 4),
    "strided": torch.arange(24.0).view(4, 6)[:, ::2],
    "expanded": torch.arange(3.0)[:, None].expand(3, 4),
    "transposed": torch.arange(12).view(3, 4).t(),
    "one": torch.tensor(5, dtype=torch.int8),
    "empty": torch.empty(0, 4),
}


@pytest.mark.parametrize("guard", [None, "before", "after"])
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_was_put_is_held_unharmed(board: Board, name: str, guard: Any) -> None:
    node = board.put(TENSORS[name], guard=guard, offset=3)
    assert board.holds(node, TENSORS[name])
    assert board.harm(node) == ""
    assert board.tensor(node).storage_offset() == (0 if name == "empty" else 3)


@pytest.mark.parametrize("name", TENSORS)
def test_another_place_is_like_the_first(board: Board, name: str) -> None:
    first = board.put(TENSORS[name], offset=3)
    node = board.another(first)
    assert node["at"] >= first["at"] + first["nbytes"]
    board.rewrite(node, TENSORS[name])
    assert board.holds(node, TENSORS[name])
    assert board.harm(node) == board.harm(first) == ""
    assert {**node, "at": 0, "lo": 0} == {**first, "at": 0, "lo": 0}
    if node["nbytes"]:
        board.tensor(
            {
                **node,
                "dtype": "uint8",
                "shape": [1],
                "strides": [1],
                "at": node["lo"] - 1,
                "lo": node["lo"] - 1,
                "nbytes": 1,
            }
        )[0] = 0
        assert "before it" in board.harm(node)


def test_memory_can_be_had_at_once(board: Board) -> None:
    mark = board.mark()
    node = board.put(torch.zeros(1 << 16))
    board.populate(mark)
    assert board.holds(node, torch.zeros(1 << 16))
    assert board.harm(node) == ""


def test_one_changed_bit_is_seen(board: Board) -> None:
    tensor = torch.tensor([0.0, float("nan"), 1.0])
    node = board.put(tensor)
    assert board.holds(node, tensor)
    board.tensor(node)[0] = -0.0
    assert not board.holds(node, tensor)


def test_other_nan_bits_are_another_value(board: Board) -> None:
    node = board.put(torch.tensor([float("nan")]))
    board.tensor(node).view(torch.int32)[0] ^= 1
    assert not board.holds(node, torch.tensor([float("nan")]))


def test_a_write_before_or_after_a_tensor_is_named(board: Board) -> None:
    node = board.put(torch.zeros(5))
    write(board, node["lo"] - 1)
    assert board.harm(node) == "1 bytes before it"
    write(board, node["at"] + node["nbytes"])
    write(board, node["at"] + node["nbytes"] + FENCE - 1)
    assert board.harm(node) == "1 bytes before it, 2 bytes after it"


def test_a_write_before_the_first_element_of_an_offset_tensor_is_seen(board: Board) -> None:
    node = board.put(torch.zeros(5), offset=4)
    write(board, node["at"] - 1)
    assert board.harm(node) == "1 bytes before it"


def test_a_write_between_rows_is_named_and_one_inside_is_not(board: Board) -> None:
    node = board.put(torch.zeros(4, 6)[:, :5])
    write(board, node["at"] + 4)
    assert board.harm(node) == ""
    write(board, node["at"] + 5 * 4)
    assert board.harm(node) == "1 bytes between its rows"


def test_what_lies_around_a_tensor_reads_as_nan(board: Board) -> None:
    node = board.put(torch.zeros(4, dtype=torch.bfloat16), offset=1)
    wider = {**node, "at": node["at"] - 2, "nbytes": 12, "shape": [6], "strides": [1], "lo": node["at"] - 2}
    assert board.copy(wider).isnan().tolist() == [True, False, False, False, False, True]


def test_new_contents_mend_the_fences(board: Board) -> None:
    node = board.put(torch.zeros(4, 6)[:, :5])
    write(board, node["lo"] - 3)
    write(board, node["at"] + 5 * 4)
    board.rewrite(node, torch.ones(4, 5))
    assert board.harm(node) == ""
    assert board.holds(node, torch.ones(4, 5))


def test_a_guard_page_touches_the_tensor(board: Board) -> None:
    tensor = torch.zeros(5, dtype=torch.float16)
    after, before = board.put(tensor, guard="after"), board.put(tensor, guard="before")
    assert after["guard"] == [after["at"] + after["nbytes"], PAGE]
    assert before["guard"] == [before["lo"] - PAGE, PAGE]
    assert after["guard"][0] % PAGE == before["guard"][0] % PAGE == 0


def test_places_do_not_overlap_guards_and_fences_of_others(board: Board) -> None:
    nodes = [board.put(torch.zeros(3), guard=guard) for guard in (None, "after", "before", "after", None)]
    taken: list[tuple[int, int]] = []
    for node in nodes:
        taken.append((node["lo"], node["lo"] + node["nbytes"]))
        if "guard" in node:
            taken.append((node["guard"][0], sum(node["guard"])))
    taken.sort()
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(taken))


def test_released_places_are_used_again(board: Board) -> None:
    mark = board.mark()
    first = board.put(torch.zeros(5 << 20))
    board.release(mark)
    second = board.put(torch.ones(3))
    assert second["lo"] == first["lo"]
    assert board.holds(second, torch.ones(3))


def test_a_full_board_says_so(board: Board) -> None:
    with pytest.raises(MemoryError, match="67108864 bytes"):
        board.put(torch.zeros(1 << 26))
    with pytest.raises(MemoryError):
        board.room(1 << 26)


def test_a_child_cannot_cut_the_memory_short(board: Board) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(board.descriptor, 0)


def test_a_tree_moves_from_one_board_to_another(board: Board) -> None:
    other = Board(1 << 24)
    value = {"x": torch.arange(6.0).view(2, 3).t(), "n": 4}
    node = board.adopt(other.put_tree(value), other, guard="after")
    other.close()
    assert node["items"]["n"]["v"] == 4
    assert board.holds(node["items"]["x"], value["x"])
    assert "guard" in node["items"]["x"]


def test_a_copy_stays_what_it_was(board: Board) -> None:
    node = board.put(torch.zeros(3, 2).t())
    copy = board.copy(node)
    board.tensor(node).fill_(1)
    assert copy.stride() == (1, 2)
    assert not copy.any()


def test_only_what_requires_a_gradient_is_a_leaf_for_the_child(board: Board) -> None:
    node = board.put(torch.zeros(3, requires_grad=True), grad=True)
    assert node["grad"] is True
    assert not board.tensor(node).requires_grad
