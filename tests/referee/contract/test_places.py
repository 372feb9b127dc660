"""Where a check puts the arguments of its calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._cases import CaseCall
from kernelwright.referee.contract._cases import Kind
from kernelwright.referee.contract._cases import Spot
from kernelwright.referee.contract._places import Places

PLAIN = CaseCall("as it is", Kind.PLAIN, "a workload", {})
AGAIN = CaseCall("again", Kind.AGAIN, "a workload", {}, spot=Spot.SAME)


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board(1 << 24)
    yield made
    made.close()


def call_on(*tensors: torch.Tensor) -> Any:
    """As much of what a reference makes as has to be put."""
    arguments = tuple(tree.tensor_node("float32", [1], [1], 0) for _ in tensors)
    return SimpleNamespace(arguments=arguments, tensors=tensors, wants_gradient=(False,) * len(tensors))


def test_the_same_place_is_written_anew(board: Board) -> None:
    places = Places(board)
    first, mark = places.put(PLAIN, call_on(torch.zeros(8)))
    assert mark is None
    later, mark = places.put(AGAIN, call_on(torch.ones(8)))
    assert mark is None
    assert later is first
    assert board.holds(first.tensors[0], torch.ones(8))


@pytest.mark.parametrize(
    ("case", "tensor"),
    [
        (replace(AGAIN, spot=Spot.NEW), torch.ones(8)),
        (replace(AGAIN, offset=3), torch.ones(8)),
        (replace(AGAIN, workload="another one"), torch.ones(8)),
        (AGAIN, torch.ones(9)),
    ],
    ids=["asked for", "offset", "workload", "shape"],
)
def test_what_cannot_lie_there_has_a_place_that_is_given_back(
    board: Board, case: CaseCall, tensor: torch.Tensor
) -> None:
    places = Places(board)
    first, _ = places.put(PLAIN, call_on(torch.zeros(8)))
    other, mark = places.put(case, call_on(tensor))
    assert mark is not None
    assert other.tensors[0]["at"] != first.tensors[0]["at"]
    assert board.holds(other.tensors[0], tensor)
    assert board.holds(first.tensors[0], torch.zeros(8))


def test_the_first_plain_call_keeps_its_place(board: Board) -> None:
    places = Places(board)
    first, _ = places.put(PLAIN, call_on(torch.zeros(8)))
    _, mark = places.put(PLAIN, call_on(torch.zeros(8)))
    assert mark is not None
    later, _ = places.put(AGAIN, call_on(torch.zeros(8)))
    assert later is first
