"""Scores are divided by the baseline's of their time and place."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search._baseline import normalise


def one(at: float, *scores: float, baseline: bool = False, **metadata: Any) -> Evaluation:
    return Evaluation(
        int(at),
        {},
        {},
        scores=scores or None,
        baseline=baseline,
        started_at=at,
        seconds=0.0,
        metadata=metadata,
    )


def normalised(*evaluations: Evaluation) -> list[tuple[float, ...] | None]:
    return [each.normalised for each in normalise(evaluations) if not each.baseline]


def test_between_two_baselines_it_is_the_straight_line() -> None:
    begin, end = one(10, 2.0, baseline=True), one(20, 4.0, baseline=True)
    assert normalised(one(5, 6.0), begin, one(15, 6.0), end, one(30, 6.0)) == [(3.0,), (2.0,), (1.5,)]


def test_it_is_compared_at_the_middle_of_its_time() -> None:
    long = Evaluation(1, {}, {}, scores=(6.0,), started_at=10, seconds=10.0)
    assert normalised(one(10, 2.0, baseline=True), long, one(20, 4.0, baseline=True)) == [(2.0,)]


def test_each_objective_has_its_own_line() -> None:
    begin, end = one(0, 1.0, 10.0, baseline=True), one(10, 3.0, 10.0, baseline=True)
    assert normalised(begin, end, one(5, 4.0, 5.0)) == [(2.0, 0.5)]


def test_each_device_is_compared_with_itself() -> None:
    slow = one(0, 8.0, baseline=True, node="a", device="gpu0")
    fast = one(1, 2.0, baseline=True, node="b", device="gpu0")
    on_slow = one(2, 8.0, node="a", device="gpu0")
    on_fast = one(3, 1.0, node="b", device="gpu0")
    told_by_worker = one(4, 2.0, node="c", device="gpu0")
    told_by_worker.metadata["baseline"] = [4.0]  # type: ignore[index]
    assert normalised(slow, fast, on_slow, on_fast, told_by_worker) == [(1.0,), (0.5,), (0.5,)]


def test_failed_and_worthless_baselines_do_not_count() -> None:
    failed = Evaluation(1, {}, {}, failure=Failure("timeout"), baseline=True, started_at=5)
    assert normalised(one(0, 2.0, baseline=True), failed, one(6, 0.0, baseline=True), one(7, 4.0)) == [(2.0,)]
    assert normalised(failed, one(7, 4.0)) == [None]


def test_what_failed_is_not_normalised() -> None:
    failed = Evaluation(1, {}, {}, failure=Failure("timeout"))
    assert normalised(one(0, 2.0, baseline=True), failed) == [None]


def test_nothing_is_lost_or_reordered() -> None:
    mixed = [one(3, 1.0), one(0, 2.0, baseline=True), one(1, 3.0)]
    assert [each.number for each in normalise(mixed)] == [3, 0, 1]
    assert normalise([]) == []
    assert normalise([one(0, 2.0, baseline=True)])[0].normalised == pytest.approx((1.0,))
