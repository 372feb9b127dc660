"""When rounds end, and how many processes there are; on times that were made up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kernelwright.referee.contract._rounds import calls_of_block
from kernelwright.referee.contract._rounds import clearly_slower
from kernelwright.referee.contract._rounds import LEAST_ROUNDS
from kernelwright.referee.contract._rounds import MORE_PROCESSES
from kernelwright.referee.contract._rounds import next_process
from kernelwright.referee.contract._rounds import plan_processes
from kernelwright.referee.contract._rounds import Rule
from kernelwright.referee.contract._rounds import Series
from kernelwright.referee.contract._rounds import stop_process

RULE = Rule(minimum_effect=0.01, seed=1)


def rounds(
    count: int, ratio: float, *, noise: float, process: int = 0, seed: int = 0, series: Series | None = None
) -> Series:
    """`count` rounds of a candidate `ratio` times as fast, each block with `noise` (relative deviation)."""
    random = np.random.default_rng(seed)
    series = Series() if series is None else series
    for _ in range(count):
        first, again, candidate = 1000.0 * np.exp(noise * random.standard_normal(3))
        series.add(process, first, candidate / ratio, again)
    return series


def stop(series: Series, *, spent_s: float = 0.0) -> str | None:
    return stop_process(series, RULE, spent_s=spent_s, budget_s=1.0)


def test_a_sample_of_the_baseline_is_the_geometric_mean_of_its_two_blocks() -> None:
    series = Series()
    series.add(0, 4.0, 3.0, 9.0)
    series.add(0, 5.0, 3.0)
    baseline, candidate = series.paired()
    assert baseline.tolist() == [6.0, 5.0]
    assert candidate.tolist() == [3.0, 3.0]
    assert [values.tolist() for values in series.itself()] == [[4.0], [9.0]]


def test_the_process_is_the_unit() -> None:
    series = Series()
    for process, ratio in enumerate((0.9, 1.1, 1.3)):
        rounds(40, ratio, noise=0.001, process=process, seed=process, series=series)
    low, high = series.estimate(seed=0).interval
    assert low < 1.0 < high
    assert [round(ratio, 1) for ratio in series.ratios().values()] == [0.9, 1.1, 1.3]
    assert len(series.of(2)) == 40
    assert series.of(2).estimate(seed=0).interval[0] > 1.2


class TestStoppingAProcess:
    def test_a_ratio_that_is_known_well_enough_ends_it(self) -> None:
        assert stop(rounds(LEAST_ROUNDS - 1, 2.0, noise=0.0001)) is None
        assert "median ratio is known to 0.0" in str(stop(rounds(12, 2.0, noise=0.0001)))

    def test_one_that_is_not_goes_on(self) -> None:
        assert stop(rounds(20, 1.02, noise=0.1)) is None

    def test_stable_noise_ends_it_only_when_the_comparison_is_decided(self) -> None:
        assert "noise is stable" in str(stop(rounds(300, 3.0, noise=0.3)))
        assert stop(rounds(300, 1.005, noise=0.3)) is None

    def test_clearly_slower_ends_it_early(self) -> None:
        slow = rounds(LEAST_ROUNDS, 0.5, noise=0.05)
        assert clearly_slower(slow, RULE)
        assert stop(slow) == "clearly slower than the baseline"
        assert not clearly_slower(rounds(LEAST_ROUNDS, 0.97, noise=0.05), RULE)
        assert not clearly_slower(rounds(LEAST_ROUNDS, 2.0, noise=0.05), RULE)

    def test_time_and_rounds_are_capped(self) -> None:
        noisy = rounds(20, 1.0, noise=0.1)
        assert stop(noisy, spent_s=1.1) == "its 1 s are used up"
        few = Rule(minimum_effect=0.01, seed=1, least=8, most=20)
        assert stop_process(noisy, few, spent_s=0.0, budget_s=9.0) == "20 rounds"

    def test_a_least_number_of_rounds_comes_before_the_cap_on_time(self) -> None:
        assert stop(rounds(LEAST_ROUNDS - 1, 1.0, noise=0.1), spent_s=5.0) is None


class TestProcesses:
    def test_all_that_were_planned_run(self) -> None:
        assert next_process(Series(), RULE, 3) is None
        assert next_process(rounds(20, 2.0, noise=0.001), RULE, 3) is None

    def test_one_is_enough_where_the_candidate_is_clearly_slower(self) -> None:
        slow = rounds(8, 0.5, noise=0.01)
        assert next_process(slow, RULE, 3) == "clearly slower than the baseline"
        assert next_process(slow, replace(RULE, trials=9), 3) is None

    def test_those_that_agree_are_enough(self) -> None:
        series = Series()
        for process in range(3):
            rounds(20, 2.0, noise=0.001, process=process, seed=process, series=series)
        assert next_process(series, RULE, 3) == "3 processes agree"

    def test_more_follow_where_they_have_not_decided_but_not_without_end(self) -> None:
        series = Series()
        for process in range(3):
            rounds(20, (1.05, 1.08, 1.14)[process], noise=0.01, process=process, series=series)
        assert next_process(series, RULE, 3) is None
        for process in range(3, 3 + MORE_PROCESSES):
            rounds(20, 0.9 + 0.2 * (process % 2), noise=0.01, process=process, series=series)
        assert next_process(series, RULE, 3) == f"{3 + MORE_PROCESSES} processes ran"

    @pytest.mark.parametrize("ratios", [(0.97, 1.0, 1.1), (0.98, 1.0, 1.02)])
    def test_none_follow_that_could_not_decide(self, ratios: tuple[float, ...]) -> None:
        series = Series()
        for process, ratio in enumerate(ratios):
            rounds(20, ratio, noise=0.001, process=process, series=series)
        assert next_process(series, RULE, 3) == "3 processes ran, and 2 more would not decide"

    def test_who_asks_for_one_gets_one(self) -> None:
        assert next_process(rounds(20, 1.0, noise=0.2), RULE, 1) == "1 processes ran"


class TestPlan:
    def plan(self, **changes: float) -> object:
        usual = {"wanted": 3, "start_s": 0.1, "baseline_s": 0.015, "candidate_s": 0.015, "left_s": 60.0}
        return plan_processes(**{**usual, **changes})

    def test_a_quick_kernel_gets_all_it_was_to_have(self) -> None:
        plan = self.plan()
        assert (plan.processes, plan.twice, plan.said) == (3, True, "")
        assert plan.rounds > 100

    def test_slow_loading_means_fewer_processes_and_it_is_said(self) -> None:
        plan = self.plan(start_s=25.0)
        assert (plan.processes, plan.twice) == (2, True)
        assert plan.said == "2 of 3 processes: starting takes 25 s and a round 0.06 s"

    def test_slow_calls_give_up_the_second_block_before_rounds(self) -> None:
        plan = self.plan(baseline_s=4.0, candidate_s=4.0)
        assert (plan.processes, plan.twice, plan.rounds) == (1, False, 7)
        assert "no second block of each" in plan.said
        assert "rounds only" not in plan.said
        assert "4 rounds only" in self.plan(baseline_s=7.0, candidate_s=7.0).said

    def test_there_is_one_round_whatever_happens(self) -> None:
        assert self.plan(baseline_s=300.0).rounds == 1


@pytest.mark.parametrize(("call_ns", "calls"), [(20_000, 551), (5_000_000, 3), (2e9, 1), (100, 1000)])
def test_a_block_lasts_ten_milliseconds_or_is_one_call(call_ns: float, calls: int) -> None:
    assert calls_of_block(call_ns, most=1000) == pytest.approx(calls, abs=1)
    assert math.isfinite(calls_of_block(0.0, most=1000))
