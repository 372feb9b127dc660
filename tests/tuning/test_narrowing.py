"""Who comes into the finals of a noisy run, and what the number of finalists asks of a proof."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
from standin import SPACE
from standin import StandIn

from kernelwright import settings
from kernelwright.ops import Workload
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.space import choice
from kernelwright.space import flag
from kernelwright.space import Space
from kernelwright.tuning import Built
from kernelwright.tuning import load_run
from kernelwright.tuning import run_ids
from kernelwright.tuning import RunRecord
from kernelwright.tuning import tune
from kernelwright.tuning._narrowing import PLAN
from kernelwright.tuning._screening import pooled

WORKLOAD = "1x4096"
#: 48 machine codes, nearly all of which are a little faster than the default.
FLAT = Space({"unroll": choice(list(range(48))), "kind": choice(["plain"]), "comment": flag()})


def flat_speed(configuration: Mapping[str, Any], workload: Workload) -> float:
    """The default (0) is the slowest; 17 is the fastest by 4%."""
    unroll = configuration["unroll"]
    return 1.0 if unroll == 0 else 1.14 if unroll == 17 else 1.02 + 0.08 * math.sin(unroll) ** 2


class Noisy(StandIn):
    """Each race is off by 3%, which its interval knows."""

    def __init__(self, seed: int, *, noise: float = 0.03, **options: Any) -> None:
        super().__init__(tested=FLAT, speed=flat_speed, **options)
        self._random = random.Random(seed)
        self._noise = noise
        self.raced: list[tuple[str, ...]] = []
        self.seconds: list[float] = []

    def race(self, workload: Workload, baseline: tuple[str, Built], entrants: Any, **options: Any) -> Any:
        self.raced.append(tuple(entrants))
        self.seconds.append(options["budget_s"] * 2 / (1 + len(entrants)))
        contests, verdicts = super().race(workload, baseline, entrants, **options)
        return {name: self._disturbed(contest) for name, contest in contests.items()}, verdicts

    def _disturbed(self, contest: Contest) -> Contest:
        ratio = contest.ratio * math.exp(self._random.gauss(0, self._noise))
        low, high = ratio * math.exp(-2 * self._noise), ratio * math.exp(2 * self._noise)
        return dataclasses.replace(contest, ratio=ratio, interval=(low, high))


def run(pipeline: StandIn, **asked: Any) -> RunRecord:
    asked = {"workloads": [WORKLOAD], "budget_s": 3.0, **asked}
    return tune("rms_norm", pipeline=lambda _: pipeline, **asked)


def fastest(record: RunRecord) -> int:
    return next(one.number for one in record.evaluations if one.configuration["unroll"] == 17)


def test_front_runners_are_measured_again_before_the_finals() -> None:
    """Among 47 that screening cannot tell apart, luck alone leads; what leads twice is good."""
    screened_first = in_finals = 0
    for seed in range(5):
        record = run(Noisy(seed), seed=seed, budget_s=12.0)
        if any(one.configuration["unroll"] == 17 for one in record.evaluations):
            best = record.best(record.workloads[0])
            screened_first += best is not None and best.number == fastest(record)
            finalists = {contest["candidate"] for contest in record.finals[record.workloads[0]]["contests"]}
            in_finals += f"#{fastest(record)}" in finalists
        repeats = record.repeats[record.workloads[0]]
        assert 1 <= len(repeats) <= 16
        distinct = [one for one in record.evaluations if one.reused is None]
        ranked = sorted(distinct, key=lambda one: -one.ratios.get(record.workloads[0], 0.0))
        assert {repeat["number"] for repeat in repeats} <= {one.number for one in ranked[:16]}
    assert in_finals >= screened_first
    assert in_finals >= 3


def test_a_run_killed_while_narrowing_goes_on_where_it_was() -> None:
    whole = Noisy(1)
    record = run(whole)
    name = record.workloads[0]
    races = len(whole.raced)
    assert len(record.repeats[name]) >= 3

    class Stops(Noisy):
        def race(self, *args: Any, **options: Any) -> Any:
            if self.order.count("build") and self._log_holds_repeats():
                raise KeyboardInterrupt
            return super().race(*args, **options)

        def _log_holds_repeats(self) -> bool:
            return any(load_run(settings.runs_dir() / one).repeats for one in run_ids() if one != record.id)

    with pytest.raises(KeyboardInterrupt):
        run(Stops(1))
    # Two runs of one second are in no order by their names.
    (other,) = set(run_ids()) - {record.id}
    stopped = load_run(settings.runs_dir() / other)
    before = list(stopped.repeats[name])
    assert before
    assert not stopped.finals
    again = Noisy(2)
    resumed = tune(run=stopped.id, pipeline=lambda _: again)
    assert resumed.finished
    assert resumed.repeats[name][: len(before)] == before
    assert len(again.raced) < races


def test_a_machine_too_busy_to_race_again_leaves_screening_s_order() -> None:
    class Busy(Noisy):
        def race(self, *args: Any, **options: Any) -> Any:
            contests, verdicts = super().race(*args, **options)
            if "confirm" not in self.order and len(self.raced) > 14:
                return {}, {name: Verdict(Status.NOISY, "too busy") for name in contests}
            return contests, verdicts

    record = run(Busy(3, noise=0.001))
    assert record.finished
    for repeat in record.repeats[record.workloads[0]]:
        if repeat["reason"]:
            assert repeat["reason"] == "noisy: too busy"
            assert repeat["ratio"] == record.evaluations[repeat["number"] - 1].ratios[record.workloads[0]]


class Unsure(StandIn):
    """Confirms what is just significant alone."""

    p_value = 0.03

    def confirm(self, *args: Any, **options: Any) -> Verdict:
        verdict = super().confirm(*args, **options)
        contests = [
            dataclasses.replace(one, comparison=Comparison.FASTER, conditions={"p_value": self.p_value})
            for one in verdict.contests
        ]
        return Verdict(verdict.status, verdict.reason, tuple(contests))


def test_several_finalists_ask_for_more_than_one_alone_would() -> None:
    record = run(Unsure())
    (result,) = record.results
    assert result.winner is None
    assert "is faster alone (faster, 1.690x" in result.outcome
    assert "but not surely enough for one of 2 finalists (p = 0.030)" in result.outcome


def test_a_proof_that_stands_among_all_finalists_is_one() -> None:
    surer = Unsure()
    surer.p_value = 0.02
    (result,) = run(surer).results
    assert result.winner is not None
    assert result.stored


def test_a_lone_finalist_needs_no_more_than_a_contest() -> None:
    tested = Space(
        {**SPACE.parameters, "unroll": choice([1, 2]), "rows": choice([1]), "kind": choice(["plain"])}
    )
    (result,) = run(Unsure(tested=tested), budget_s=5.0).results
    assert result.winner is not None


def test_who_is_clearly_behind_the_incumbent_gets_one_look() -> None:
    """With much time for each candidate: the first look ends it for most, the others are looked at twice."""
    pipeline = Noisy(0, noise=0.002)
    record = run(pipeline, budget_s=200.0, seed=1)
    assert record.finished
    number = {f"#{one.number}": one for one in record.evaluations}
    name = record.workloads[0]
    first, second = (
        {
            one
            for race, seconds in zip(pipeline.raced, pipeline.seconds, strict=True)
            for one in race
            if abs(seconds - share) < 1e-9
        }
        for share in (0.4 * 0.5, 0.6 * 0.5)
    )
    once = first - second
    assert f"#{fastest(record)}" in second
    assert second < first
    assert len(once) > len(second)
    for one in once:
        assert number[one].ratios[name] < 1.14


def test_two_looks_are_pooled_by_how_sure_they_are() -> None:
    ratio, (low, high) = pooled((1.0, (0.9, 1 / 0.9)), (1.1, (1.1 * 0.99, 1.1 / 0.99)))
    assert 1.09 < ratio < 1.1
    assert high / low < 1 / 0.99**2
    unsure = 1.5, (0.0, math.inf)
    assert pooled(unsure, (1.1, (1.05, 1.15)))[0] == pytest.approx(1.1)
    assert pooled(unsure, unsure) == unsure


def test_ratios_have_no_slow_side_and_confirming_is_the_referee_s() -> None:
    assert not PLAN.slow_outliers
    assert PLAN.confirmations == 0


def test_each_further_race_is_in_the_record() -> None:
    record = run(StandIn())
    assert record.repeats
    assert all(
        set(one) >= {"workload", "number", "ratio", "reason"} for one in record.repeats[record.workloads[0]]
    )
