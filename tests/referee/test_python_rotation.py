"""The ring of buffers that all contestants of a bench share."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright.errors import UsageError
from kernelwright.referee._python_rotation import Layout
from kernelwright.referee._python_rotation import plan_ring
from kernelwright.referee._python_rotation import Pool
from kernelwright.referee._python_rotation import Ring

MIB = 1 << 20


def make_ring(*, slots: int, warm: bool = False, contents: int = 2, **more: Any) -> Ring:
    tensors = {"x": torch.zeros(3, 5, dtype=torch.bfloat16), "w": torch.zeros(5), "out": torch.zeros(3, 5)}
    filled = [
        {"x": torch.full((3, 5), float(number), dtype=torch.bfloat16), "w": torch.arange(5.0) + number}
        for number in range(contents)
    ]
    pool = more.pop("pool", None) or Pool()
    return Ring(pool, Layout(tensors), filled, "out", slots=slots, warm=warm, seed=1, **more)


@given(slots=st.integers(2, 40), block=st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_a_cold_ring_visits_every_slot_before_any_again(slots: int, block: int) -> None:
    ring = make_ring(slots=slots)
    places = [views[0].data_ptr() for _ in range(3 * slots) for views in ring.take(block)]
    for start in range(0, len(places) - slots + 1, slots):
        assert len(set(places[start : start + slots])) == slots
    assert places[:slots] == places[slots : 2 * slots]


def test_a_warm_block_uses_two_slots_again_and_again() -> None:
    ring = make_ring(slots=6, warm=True)
    blocks = [ring.take(7) for _ in range(3)]
    places = [[views[0].data_ptr() for views in block] for block in blocks]
    assert all(block == [block[0], block[1]] * 3 + [block[0]] for block in places)
    assert len({place for block in places for place in block}) == 6


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_the_last_slot_is_known_with_its_content(warm: bool, calls: int) -> None:
    ring = make_ring(slots=8, warm=warm)
    x, w, out = ring.take(calls)[-1]
    inputs = ring.last_inputs()
    assert inputs["x"].data_ptr() == x.data_ptr()
    assert torch.equal(x.float(), torch.full((3, 5), float(ring.last_content)))
    assert torch.equal(w, torch.arange(5.0) + ring.last_content)
    out.fill_(1.0)
    ring.poison_last()
    assert bool(out.isnan().all())
    assert torch.equal(w, torch.arange(5.0) + ring.last_content)


def test_outputs_start_poisoned_and_buffers_do_not_overlap() -> None:
    ring = make_ring(slots=4)
    slots = ring.take(4)
    assert all(bool(out.isnan().all()) for _, _, out in slots)
    spans = sorted(
        (view.data_ptr(), view.data_ptr() + view.numel() * view.element_size())
        for views in slots
        for view in views
    )
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert all(start % 64 == spans[0][0] % 64 for start, _ in spans)


def test_tensors_without_elements_have_their_shape() -> None:
    layout = Layout({"x": torch.zeros(0, 4), "out": torch.zeros(0, 4)})
    ring = Ring(Pool(), layout, [{"x": torch.zeros(0, 4)}], "out", slots=2, warm=False, seed=0)
    assert [tuple(view.shape) for view in ring.take(1)[0]] == [(0, 4), (0, 4)]


def test_rings_on_one_file_are_one_ring_that_is_filled_once() -> None:
    file = os.memfd_create("ring")
    os.ftruncate(file, 1 << 20)
    first = make_ring(slots=6, pool=Pool(file))
    second = make_ring(slots=6, pool=Pool(file), fill=False)
    os.close(file)
    for _ in range(6):
        (x, w, out), (same_x, same_w, same_out) = first.take(1)[0], second.take(1)[0]
        assert torch.equal(x, same_x)
        assert torch.equal(w, same_w)
        out.fill_(3.0)
        assert bool((same_out == 3.0).all())


def test_whoever_asks_says_where_in_the_order_a_block_begins() -> None:
    ring = make_ring(slots=5)
    places = [views[0].data_ptr() for views in ring.take(5)]
    ring.seek(7)
    assert [views[0].data_ptr() for views in ring.take(2)] == places[2:4]
    assert ring.used(9) == 9
    assert make_ring(slots=4, warm=True).used(9) == 2


def test_a_cold_ring_is_as_large_as_asked() -> None:
    plan = plan_ring(MIB, 3, wanted_bytes=64 * MIB, llc_bytes=16 * MIB, available_bytes=1024 * MIB)
    assert plan.slots == 64
    assert not plan.capped
    assert plan.as_dict()["llc_multiple"] == 4.0


def test_a_ring_takes_a_quarter_of_memory_at_most_and_says_so() -> None:
    plan = plan_ring(MIB, 3, wanted_bytes=64 * MIB, llc_bytes=16 * MIB, available_bytes=128 * MIB)
    assert plan.slots == 32
    assert plan.capped


def test_a_warm_ring_has_two_slots_a_contestant() -> None:
    assert plan_ring(MIB, 3, wanted_bytes=0, llc_bytes=16 * MIB, available_bytes=1024 * MIB).slots == 6


def test_buffers_that_do_not_fit_are_refused_with_the_sizes() -> None:
    with pytest.raises(UsageError, match=r"3 contestants .* need 600 MiB, more than half of the 1024 MiB"):
        plan_ring(100 * MIB, 3, wanted_bytes=0, llc_bytes=MIB, available_bytes=1024 * MIB)
