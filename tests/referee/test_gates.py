"""What the gate of published benchmarks asks of a win."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kernelwright.referee import Comparison
from kernelwright.referee._gates import WelchGate

GATE = WelchGate()


def samples(seed: int, mean: float, *, sd: float = 30.0, count: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, sd, count)


def unmet(baseline: np.ndarray, candidate: np.ndarray, *, warmups: int = 50) -> set[str]:
    return {one.name for one in GATE.conditions(baseline, candidate, warmups=warmups) if not one.held}


def test_a_clear_win_meets_every_condition() -> None:
    assert GATE.judge(samples(0, 1000), samples(1, 950), warmups=50) == (Comparison.FASTER, [])
    found = GATE.conditions(samples(0, 1000), samples(1, 950), warmups=50)
    assert [one.name for one in found] == [
        "trials",
        "warmups",
        "mean",
        "welch",
        "effect",
        "minimum",
        "spread",
        "repeats",
    ]


def test_a_clear_loss_is_slower_and_says_why_it_is_no_win() -> None:
    answer, reasons = GATE.judge(samples(0, 950), samples(1, 1000), warmups=50)
    assert answer is Comparison.SLOWER
    assert any(reason.startswith("mean 99") for reason in reasons)


def test_equal_kernels_are_the_same_or_ambiguous() -> None:
    assert GATE.judge(samples(0, 1000), samples(1, 1000), warmups=50)[0] is Comparison.SAME
    assert GATE.judge(samples(0, 1000, sd=300), samples(1, 1000, sd=300), warmups=50)[0] is (
        Comparison.AMBIGUOUS
    )


def test_few_trials_or_warm_ups_prove_nothing() -> None:
    few = samples(0, 1000, count=99), samples(1, 900, count=99)
    assert GATE.judge(*few, warmups=50) == (
        Comparison.AMBIGUOUS,
        ["99 trials; 100 are asked for"],
    )
    cold = GATE.judge(samples(0, 1000), samples(1, 900), warmups=49)
    assert cold == (Comparison.AMBIGUOUS, ["49 warm-ups; 50 are asked for"])


def test_welch_s_p_value_is_scipy_s() -> None:
    baseline, candidate = samples(0, 1000, sd=20), samples(1, 996, sd=60, count=120)
    p = stats.ttest_ind(baseline, candidate, equal_var=False).pvalue
    texts = [one.text for one in GATE.conditions(baseline, candidate, warmups=50) if one.name == "welch"]
    assert f"p = {p:.3g} " in texts[0]


def test_a_significant_trifle_is_no_win() -> None:
    """Ten thousand samples make a tenth of a standard deviation significant; it stays small."""
    baseline, candidate = samples(0, 1000, count=10_000), samples(1, 997, count=10_000)
    assert unmet(baseline, candidate) == {"effect"}
    assert "Cohen's d is 0.1" in GATE.judge(baseline, candidate, warmups=50)[1][0]


def test_one_lucky_minimum_is_no_win() -> None:
    baseline, candidate = samples(0, 1000), samples(1, 1002)
    candidate[17] = 400.0
    answer, reasons = GATE.judge(baseline, candidate, warmups=50)
    assert answer is not Comparison.FASTER
    assert any(reason.startswith("it wins only in the minimum: ") for reason in reasons)


def test_a_mean_that_a_few_slow_baseline_calls_lift_is_no_win() -> None:
    baseline, candidate = samples(0, 1000, sd=5), samples(1, 1003, sd=5)
    baseline[::8] *= 2
    assert "minimum" in unmet(baseline, candidate)


def test_a_wider_spread_is_no_win() -> None:
    assert unmet(samples(0, 1000), samples(1, 900, sd=34)) == set()
    wide = samples(0, 1000), samples(1, 900, sd=45)
    assert unmet(*wide) == {"spread"}
    answer, reasons = GATE.judge(*wide, warmups=50)
    assert answer is Comparison.AMBIGUOUS
    assert "up to 25% more is allowed" in reasons[0]


def test_a_win_that_is_not_there_a_second_time_is_none() -> None:
    baseline, candidate = samples(0, 1000), samples(1, 1010)
    candidate[:100] -= 100
    assert unmet(baseline, candidate) >= {"repeats"}
    labels = np.repeat([1, 2, 3, 4], 50)
    candidate = samples(1, 960)
    candidate[labels == 3] += 60
    found = GATE.judge(baseline, candidate, warmups=50, processes=labels)
    assert found[0] is Comparison.AMBIGUOUS
    assert "the median is lower in 3 of 4 repetitions; in all is asked for" in found[1]


def test_the_best_of_many_equals_hardly_ever_passes() -> None:
    """Identical candidates pass more rarely than the 5% of the test alone."""
    wins = [GATE.judge(samples(2 * k, 1000), samples(2 * k + 1, 1000), warmups=50)[0] for k in range(200)]
    assert wins.count(Comparison.FASTER) <= 8


def test_missing_samples_do_not_count_and_too_few_are_refused() -> None:
    baseline, candidate = samples(0, 1000), samples(1, 900)
    gaps = candidate.copy()
    gaps[3] = np.nan
    assert unmet(baseline, gaps) == set()
    with pytest.raises(ValueError, match="four samples of each side; got 200 and 3"):
        GATE.judge(baseline, candidate[:3], warmups=50)
    with pytest.raises(ValueError, match="each sample needs its process"):
        GATE.judge(baseline, candidate, warmups=50, processes=[1, 2])


def test_times_without_any_noise_have_an_answer() -> None:
    even = np.full(100, 50.0)
    assert GATE.judge(even, even, warmups=50)[0] is Comparison.SAME
    assert GATE.judge(even, even - 1, warmups=50)[0] is Comparison.FASTER
