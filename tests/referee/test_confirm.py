"""A confirmation looks at fresh pairs of processes once or a few times, and errs no more often for it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.errors import UsageError
from kernelwright.ops import RmsNormSpec
from kernelwright.referee import _confirm
from kernelwright.referee import Comparison
from kernelwright.referee import confirm
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee._confirm import LEVELS
from kernelwright.referee._native_result import Ran
from kernelwright.referee._native_result import Rules
from kernelwright.referee._statistics import foreseen
from kernelwright.referee._statistics import judge

Ratios = Iterator[float]
Confirm = Callable[..., tuple[Verdict, list[float]]]


@pytest.fixture
def confirmed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Confirm:
    """Confirm where each pair of processes has the ratio that comes next; returns those that were used."""

    def confirmed(ratios: list[float], **options: Any) -> tuple[Verdict, list[float]]:
        used: list[float] = []
        draw = np.random.default_rng(0)

        class Race:
            def __init__(self, pool: Any, data: Any, rules: Rules) -> None:
                assert rules.budget_s == pytest.approx(1.0 / options["processes"])

            def times(self, baseline: NativeEntrant, entrants: list[NativeEntrant]) -> Ran:
                used.append(ratios[len(used)])
                times = 1e4 * draw.normal(1.0, 1e-4, size=(2, 8))
                return Ran({"": times[0] * used[-1], "entrant": times[1]}, {"entrant": {}})

        def check(self: NativeJudge, *_: Any, **__: Any) -> Verdict:
            return Verdict(Status.PASSED, "right")

        monkeypatch.setattr(_confirm, "Race", Race)
        monkeypatch.setattr(NativeJudge, "check", check)
        monkeypatch.setattr(NativeJudge, "race_data", lambda *_, **__: _Data())
        monkeypatch.setattr("kernelwright.referee._native_result._floor", lambda *_: (None, {}))
        spec = RmsNormSpec()
        verdict = confirm(
            spec,
            spec.workload(1, 8),
            NativeEntrant("baseline", tmp_path / "a.so", "f"),
            NativeEntrant("entrant", tmp_path / "b.so", "f"),
            describe=None,  # type: ignore[arg-type]
            modes=[Mode.WARM],
            regimes=[Regime.PREALLOCATED],
            **options,
        )
        return verdict, used

    return confirmed


class _Data:
    workload = RmsNormSpec().workload(1, 8, dtype=torch.float32)


SCATTERED = [1.02, 1.10, 1.01, 1.07]


def test_what_is_clear_at_the_first_look_needs_no_second(confirmed: Confirm) -> None:
    verdict, used = confirmed([1.05, 1.051, 1.049, 1.05], processes=4, looks=3)
    (contest,) = verdict.contests
    assert contest.comparison is Comparison.FASTER
    assert contest.conditions["ratios"] == pytest.approx(used, abs=1e-3)
    assert len(used) == 4


def test_what_is_unclear_is_looked_at_again_where_that_can_decide_it(confirmed: Confirm) -> None:
    once, used = confirmed(SCATTERED, processes=4, looks=1)
    assert once.contests[0].comparison is Comparison.AMBIGUOUS
    assert len(used) == 4
    again, used = confirmed([*SCATTERED, *SCATTERED, *SCATTERED], processes=4, looks=3)
    assert again.contests[0].comparison is Comparison.FASTER
    assert len(used) == 8


def test_what_more_processes_cannot_decide_is_left_at_that(confirmed: Confirm) -> None:
    verdict, used = confirmed([0.8, 1.25, 0.7, 1.45], processes=4, looks=4)
    assert verdict.contests[0].comparison is Comparison.AMBIGUOUS
    assert len(used) == 4


def test_looks_are_bounded(confirmed: Confirm) -> None:
    for looks in (0, 5):
        with pytest.raises(UsageError, match=f"looked at 1 to 4 times; got {looks}"):
            confirmed([], processes=4, looks=looks)
    with pytest.raises(UsageError, match="one pair of processes at least; got 0"):
        confirmed([], processes=0)


def test_all_looks_together_hold_the_level() -> None:
    """Of identical kernels, whose processes differ by 3%, a twentieth is called different, however often one
    looks; with no correction it would be a tenth. Student's interval stands for the whole estimate."""
    draw = np.random.default_rng(0)
    runs, processes, looks = 1000, 6, 3
    wrong = dict.fromkeys((LEVELS[1], LEVELS[looks]), 0)
    for _ in range(runs):
        ratios = np.exp(draw.normal(0.0, 0.03, size=processes * looks))
        seen = [ratios[: processes * look] for look in range(1, looks + 1)]
        for level in wrong:
            found = [judge(foreseen(some, more=0, level=level)) for some in seen]
            wrong[level] += Comparison.FASTER in found or Comparison.SLOWER in found
    assert wrong[LEVELS[looks]] <= 0.05 * runs + 2 * (0.05 * 0.95 * runs) ** 0.5
    assert wrong[LEVELS[1]] > 0.08 * runs
