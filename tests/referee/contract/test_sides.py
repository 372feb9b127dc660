"""By what times the blocks of a pair are planned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.referee.contract._sides import between_s
from kernelwright.referee.contract._sides import evened


def test_two_that_take_about_as_long_get_blocks_of_one_size() -> None:
    assert evened([100.0, 121.0]) == pytest.approx([110.0, 110.0])


def test_two_that_differ_are_planned_each_by_its_own() -> None:
    assert evened([100.0, 126.0]) == [100.0, 126.0]
    assert evened([300.0, 100.0]) == [300.0, 100.0]


def test_a_block_takes_longer_by_what_is_renewed_and_by_calls_ahead_of_the_clock() -> None:
    class Slots:
        nbytes = 4_000_000

        def __len__(self) -> int:
            return 10

    side: Any = SimpleNamespace(slots=Slots(), plan=SimpleNamespace(lead=2), call_ns=1e6)
    assert between_s(side) == pytest.approx(0.008 + 0.0025 + 0.002)
