"""How long blocks are and what they run on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.referee import Mode
from kernelwright.referee.contract._block_plan import BlockPlan
from kernelwright.referee.contract._block_plan import FEWEST_SLOTS
from kernelwright.referee.contract._block_plan import MOST_SLOTS
from kernelwright.referee.contract._block_plan import plan_block
from kernelwright.referee.contract._block_plan import shorter

MIB = 1 << 20


def plan(call_ns: float, slot_bytes: int, **changes: Any) -> BlockPlan:
    usual = {"mode": Mode.WARM, "once": False, "room_bytes": 512 * MIB, "near_bytes": 4 * MIB}
    return plan_block(call_ns, slot_bytes, **{**usual, **changes})


def test_a_quick_call_on_small_inputs_never_meets_the_same_contents_twice() -> None:
    found = plan(20_000, 16 << 10)
    assert found.distinct
    assert found.calls == pytest.approx(550, abs=1)
    assert found.slots == found.calls + found.lead


def test_so_does_one_that_computes_much_on_few_bytes() -> None:
    found = plan(2_000_000, 4 * MIB)
    assert found.distinct
    assert found.calls == 6


def test_a_call_that_mostly_reads_uses_few_sets_again_when_warm() -> None:
    found = plan(100_000, 1 * MIB)
    assert not found.distinct
    assert found.slots == FEWEST_SLOTS
    assert found.lead >= found.slots
    assert found.calls > found.slots


def test_a_cold_call_has_a_set_that_nobody_touched() -> None:
    found = plan(100_000, 1 * MIB, mode=Mode.COLD)
    assert found.cold
    assert found.distinct
    assert found.calls + found.lead == found.slots
    assert 1 <= found.lead <= 8


def test_calls_that_change_their_arguments_have_each_set_once() -> None:
    found = plan(100_000, 1 * MIB, once=True)
    assert (found.distinct, found.cold) == (True, False)
    assert found.calls + found.lead == found.slots


def test_a_block_is_shorter_where_memory_does_not_allow_more_sets() -> None:
    found = plan(100_000, 64 * MIB, mode=Mode.COLD)
    assert found.slots == 8
    assert found.calls == 6


def test_a_block_that_is_longer_than_needed_loses_calls_and_nothing_else() -> None:
    found = plan(20_000, 16 << 10)
    half = shorter(found, 0.5)
    assert half.calls == pytest.approx(0.55 * found.calls, abs=1)
    assert (half.lead, half.slots, half.distinct) == (found.lead, found.slots, found.distinct)
    assert shorter(found, 3.0) == found, "none gets longer"
    assert shorter(found, 1e-9).calls == 1


def test_a_long_call_is_alone_in_its_block() -> None:
    found = plan(2e9, 64 * MIB)
    assert (found.calls, found.lead) == (1, 0)


@given(
    call_ns=st.floats(1.0, 1e10),
    slot_bytes=st.integers(0, 1 << 30),
    mode=st.sampled_from(list(Mode)),
    once=st.booleans(),
    room=st.integers(1 << 20, 1 << 33),
)
def test_whatever_the_call_there_are_sets_for_it(
    call_ns: float, slot_bytes: int, mode: Mode, once: bool, room: int
) -> None:
    found = plan(call_ns, slot_bytes, mode=mode, once=once, room_bytes=room)
    assert found.calls >= 1
    assert 1 <= found.slots <= MOST_SLOTS + 1
    assert found.slots * slot_bytes <= max(room, (FEWEST_SLOTS + 1) * slot_bytes)
    if found.distinct:
        assert found.calls + found.lead <= found.slots
