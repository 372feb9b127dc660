"""Each thing that goes wrong with a search is found, said with its numbers, and has a remedy; and no more."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import Finding
from kernelwright.search import SearchResult
from kernelwright.search._remedies import REMEDIES


def scored(number: int, *scores: float, **extra: Any) -> Evaluation:
    params = extra.pop("params", {"tile": number})
    return Evaluation(number, params, params, scores, started_at=float(number), **extra)


def failed(number: int, kind: str, reason: str = "", **params: Any) -> Evaluation:
    return Evaluation(number, params, params, failure=Failure(kind, reason))


def baseline(number: int, score: float) -> Evaluation:
    return Evaluation(number, {}, {}, (score,), baseline=True, started_at=float(number))


def found(evaluations: list[Evaluation], **options: Any) -> dict[str, Finding]:
    findings = SearchResult(evaluations, **options).diagnose()
    assert all(one.text and one.remedy for one in findings)
    return {one.name: one for one in findings}


def healthy(seed: int = 0) -> list[Evaluation]:
    """A good search: a clear optimum, found in the middle, against a quiet baseline."""
    generator = random.Random(seed)
    made = []
    for number in range(1, 81):
        if number % 10 == 1:
            made.append(baseline(number, 10.0 * generator.gauss(1.0, 0.004)))
        else:
            score = 4.0 if number == 45 else generator.uniform(5.0, 20.0)
            made.append(scored(number, score, worker=f"w{number % 2}"))
    return made


def test_a_healthy_search_has_no_finding() -> None:
    assert [found(healthy(seed)) for seed in range(20)] == [{}] * 20


def test_a_search_without_evaluations_says_so() -> None:
    assert found([])["empty"].severity == "error"


def test_nothing_scored_is_an_error_with_the_causes() -> None:
    seen = found([failed(1, "raised", "KeyError: 'tile'"), failed(2, "raised"), failed(3, "timeout")])
    assert seen["no_score"].severity == "error"
    assert "3 candidates" in seen["no_score"].text
    assert "failures" in seen


def test_failures_are_counted_by_cause_with_an_example_and_a_remedy() -> None:
    evaluations = [*healthy(), *(failed(100 + n, "timeout", "30 s are over", x=n) for n in range(40))]
    evaluations += [failed(200, "crashed", "signal 11 (SIGSEGV)", x=1)]
    findings = [one for one in SearchResult(evaluations).diagnose() if one.name == "failures"]
    assert [one.severity for one in findings] == ["warning", "warning"]
    assert findings[0].text == "40 of 121 evaluations (33%) failed: timeout; #100: 30 s are over"
    assert findings[0].remedy == REMEDIES["timeout"]
    assert findings[1].remedy == REMEDIES["crashed"]


def test_few_failures_are_only_a_note() -> None:
    assert found([*healthy(), failed(100, "raised", "x")])["failures"].severity == "note"


@pytest.mark.parametrize(
    "kind",
    [
        "raised",
        "invalid_score",
        "wrong_arity",
        "unpicklable",
        "timeout",
        "crashed",
        "out_of_memory",
        "exited",
        "worker_lost",
    ],
)
def test_every_failure_of_a_worker_has_a_remedy_of_its_own(kind: str) -> None:
    assert REMEDIES[kind] != REMEDIES[""]


def test_a_value_that_always_fails_is_named() -> None:
    generator = random.Random(2)
    evaluations = []
    for number in range(1, 81):
        params = {"tile": generator.choice([16, 32, 64, 256]), "unroll": generator.choice([1, 2])}
        if params["tile"] == 256:
            evaluations.append(failed(number, "crashed", "signal 11", **params))
        else:
            evaluations.append(scored(number, generator.random(), params=params))
    text = found(evaluations)["failing_value"].text
    assert text.startswith("with tile = 256, ")
    assert "without it 0 of" in text
    assert "constraint" in found(evaluations)["failing_value"].remedy


def test_failures_at_random_blame_no_value() -> None:
    blamed = 0
    for seed in range(40):
        generator = random.Random(seed)
        evaluations = []
        for number in range(1, 61):
            params = {name: generator.choice([1, 2, 3]) for name in "abcde"}
            bad = generator.random() < 0.4
            one = failed(number, "raised", **params) if bad else scored(number, number, params=params)
            evaluations.append(one)
        blamed += "failing_value" in found(evaluations)
    assert blamed <= 2


def test_equal_scores_are_an_error_about_caches() -> None:
    seen = found([scored(n, 1.25) for n in range(1, 10)])
    assert set(seen) == {"all_equal"}
    assert seen["all_equal"].severity == "error"
    assert "1.25" in seen["all_equal"].text
    assert "cache" in seen["all_equal"].remedy


def test_few_distinct_scores_are_a_note() -> None:
    assert "few_values" in found([scored(n, float(n % 2)) for n in range(1, 41)])


def test_nothing_better_than_the_baseline_is_said() -> None:
    evaluations = [baseline(1, 3.0), baseline(2, 3.0), *(scored(n, 4.0 + n) for n in range(3, 20))]
    seen = found(evaluations)["no_improvement"]
    assert seen.severity == "warning"
    assert "nothing beats the baseline" in seen.text
    assert "no_improvement" not in found(evaluations, problem_type="max")


def test_a_win_within_the_noise_is_luck() -> None:
    generator = random.Random(3)
    evaluations = [
        baseline(n, generator.gauss(10.0, 0.3)) if n % 5 == 0 else scored(n, generator.gauss(10.0, 0.3))
        for n in range(1, 101)
    ]
    seen = found(evaluations)
    assert "luck" in seen["no_improvement"].text
    assert "minimize" in seen["no_improvement"].remedy
    assert "too_noisy" in seen


def test_noise_is_judged_by_the_best_and_told_in_proportion() -> None:
    generator = random.Random(5)
    evaluations = []
    for n in range(1, 101):
        if n % 5 == 0:
            evaluations.append(baseline(n, 10.0 * generator.gauss(1.0, 0.1)))
        else:
            evaluations.append(scored(n, generator.uniform(5.0, 7.0)))
    seen = found(evaluations)["too_noisy"]
    assert "median" in seen.remedy
    percent = float(seen.text.partition("score is ")[2].partition("%")[0])
    assert percent == pytest.approx(10.0, rel=0.5)


def test_noise_that_nobody_measured_is_not_known() -> None:
    seen = found([scored(n, float(n)) for n in range(1, 12)])
    assert seen["noise_not_known"].severity == "note"


def test_drift_of_the_baseline_is_told_with_its_size() -> None:
    generator = random.Random(1)
    evaluations = []
    for n in range(1, 121):
        slower = 1.0 + 0.2 * n / 120
        if n % 10 == 1:
            evaluations.append(baseline(n, 10.0 * slower * generator.gauss(1.0, 0.005)))
        else:
            evaluations.append(scored(n, generator.uniform(5.0, 20.0) * slower, normalised=(0.5 + n / 1000,)))
    seen = found(evaluations)["drift"]
    assert seen.severity == "warning"
    assert "normalize=True" in seen.remedy
    assert float(seen.text.partition("by ")[2].partition("%")[0]) == pytest.approx(17.0, abs=4.0)
    followed = found(evaluations, normalize=True)["drift"]
    assert followed.severity == "note"


def test_a_quiet_baseline_does_not_drift() -> None:
    wrong = 0
    for seed in range(100):
        generator = random.Random(seed)
        evaluations = [baseline(n, generator.gauss(10.0, 0.5)) for n in range(1, 13)]
        evaluations += [scored(n, float(n)) for n in range(20, 24)]
        wrong += "drift" in found(evaluations)
    assert wrong <= 4


def test_workers_that_measure_differently_are_named() -> None:
    generator = random.Random(7)
    evaluations = [
        scored(n, generator.uniform(5.0, 6.0) * (1.5 if n % 2 else 1.0), worker=f"gpu{n % 2}")
        for n in range(1, 61)
    ]
    assert "gpu1" in found(evaluations)["workers_differ"].text


def test_where_the_best_came_is_told() -> None:
    rising = [scored(n, 100.0 - n) for n in range(1, 41)]
    assert "still_improving" in found(rising)
    early = [scored(n, 1.0 if n == 3 else 10.0 + n) for n in range(1, 41)]
    assert "candidate 3 of 40" in found(early)["stalled"].text


def test_objectives_that_agree_are_one() -> None:
    evaluations = [scored(n, float(n), 2.0 * n) for n in range(1, 20)]
    assert "no_conflict" in found(evaluations, num_objectives=2)


def test_the_worst_comes_first() -> None:
    evaluations = [scored(n, 1.0) for n in range(1, 9)] + [failed(9, "raised", "x")]
    severities = [one.severity for one in SearchResult(evaluations).diagnose()]
    assert severities == ["error", "note"]
