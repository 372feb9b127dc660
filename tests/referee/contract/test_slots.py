"""Contents of timed calls: new each time, and known to the judge without looking."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._slots import Draw
from kernelwright.referee.contract._slots import nodes_of
from kernelwright.referee.contract._slots import Slots

SHAPE = (6, 8)
NAMES = ("x", "weight", "labels")


def as_draw(*arguments: Any) -> Draw:
    tensors: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> dict[str, Any]:
        tensors.append(tensor)
        return {"t": "tensor"}

    return [tree.encode(one, note) for one in arguments], tensors


def draw(seed: int) -> Draw:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*SHAPE, generator=generator).to(torch.bfloat16)
    weight = torch.randn(2, SHAPE[1], generator=generator)[:, ::2]
    labels = torch.randint(0, 5, (6,), generator=generator)
    return as_draw(x, [weight, 3], labels, 1e-6)


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board(1 << 26)
    yield made
    made.close()


@pytest.fixture
def slots(board: Board) -> Slots:
    return Slots(board, [draw(1), draw(2)], 5, seed=4)


def held(board: Board, slots: Slots, slot: int) -> tuple[torch.Tensor, ...]:
    return tuple(board.copy(node) for node in nodes_of(slots.arguments[slot]))


def same(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_judge_knows_what_each_slot_holds(board: Board, slots: Slots) -> None:
    for _ in range(60):
        slots.renew()
        for slot in range(len(slots)):
            assert same(slots.contents(slot), held(board, slots, slot))
            assert slots.changed(slot, NAMES) is None


def test_every_slot_has_other_contents_after_each_renewal(board: Board, slots: Slots) -> None:
    for _ in range(10):
        before = [held(board, slots, slot) for slot in range(len(slots))]
        slots.renew()
        for slot, was in enumerate(before):
            now = held(board, slots, slot)
            assert not torch.equal(was[0], now[0])
            assert not torch.equal(was[1], now[1])


def test_the_last_changes_come_at_a_touch(board: Board, slots: Slots) -> None:
    slots.prepare()
    kept = [held(board, slots, slot) for slot in range(len(slots))]
    slots.touch()
    for slot, was in enumerate(kept):
        assert not same(was, held(board, slots, slot))
        assert same(slots.contents(slot), held(board, slots, slot))


def test_few_elements_change_in_most_slots_and_all_of_them_in_some(board: Board, slots: Slots) -> None:
    changed = []
    for _ in range(20):
        before = [held(board, slots, slot)[0] for slot in range(len(slots))]
        slots.renew()
        changed += [int((was != held(board, slots, i)[0]).sum()) for i, was in enumerate(before)]
    assert sum(count <= 3 for count in changed) > len(changed) // 2
    assert any(count > 20 for count in changed)


def test_integers_are_only_those_of_a_draw(board: Board, slots: Slots) -> None:
    drawn = [draw(seed)[1][2].tolist() for seed in (1, 2)]
    for _ in range(20):
        slots.renew()
        assert all(held(board, slots, slot)[2].tolist() in drawn for slot in range(len(slots)))


def test_tensors_with_infinities_are_only_those_of_a_draw(board: Board) -> None:
    mask = torch.zeros(4, 4).masked_fill_(torch.ones(4, 4).triu(1).bool(), float("-inf"))
    slots = Slots(board, [as_draw(torch.randn(4, 4), mask)], 3, seed=0)
    slots.renew()
    assert torch.equal(held(board, slots, 0)[1], mask)


def test_single_elements_can_be_left_alone(board: Board) -> None:
    slots = Slots(board, [draw(1), draw(2)], 5, seed=4, single=False)
    for _ in range(10):
        slots.renew()
        wanted = [draw(seed)[1][0] for seed in (1, 2)]
        assert all(any(torch.equal(held(board, slots, s)[0], one) for one in wanted) for s in range(5))


def test_what_a_slot_held_before_is_known_until_it_is_written_anew(board: Board, slots: Slots) -> None:
    known = 0
    for _ in range(12):
        before = [held(board, slots, slot) for slot in range(len(slots))]
        slots.renew()
        for slot, was in enumerate(before):
            try:
                assert same(slots.contents(slot, renewals_ago=1), was)
                known += 1
            except LookupError:
                pass
    assert known > 20


def test_what_a_performer_does_to_its_inputs_is_found(board: Board, slots: Slots) -> None:
    slots.renew()
    node = nodes_of(slots.arguments[2])[0]
    board.tensor(node)[0, 0] += 1
    assert slots.changed(2, NAMES) == "changed its input x"
    assert slots.changed(1, NAMES) is None
    slots.restore()
    assert slots.changed(2, NAMES) is None
    weight = nodes_of(slots.arguments[3])[1]
    whole = {**weight, "shape": [2, 7], "strides": [8, 1], "nbytes": 15 * 4}
    board.tensor(whole)[0, 1] = 0.0
    assert slots.changed(3, NAMES) == "wrote 4 bytes between its rows of its input weight"


def test_an_order_takes_all_slots_before_any_again(slots: Slots) -> None:
    order = slots.order(13)
    assert len(order) == 13
    assert sorted(order[:5]) == sorted(order[5:10]) == list(range(5))
    assert slots.order(13) != slots.order(13)


def test_contents_have_the_strides_of_the_arguments(slots: Slots) -> None:
    x, weight, labels = slots.contents(0)
    assert (x.shape, x.dtype) == (SHAPE, torch.bfloat16)
    assert weight.stride() == (8, 2)
    assert labels.dtype == torch.int64


def test_places_are_apart_and_not_at_equal_distances(slots: Slots) -> None:
    places = [nodes_of(arguments)[0]["at"] for arguments in slots.arguments]
    assert len({b - a for a, b in itertools.pairwise(places)}) > 1
