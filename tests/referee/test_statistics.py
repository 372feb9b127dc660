"""What paired times allow to conclude."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright.referee import compare
from kernelwright.referee import Comparison
from kernelwright.referee import timing
from kernelwright.referee._statistics import decided
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import judge

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)


def paired(
    seed: int, pairs: int, *, ratio: float = 1.0, noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """Times of a baseline and of a candidate `ratio` times as fast, which share a drift of the machine."""
    random = np.random.default_rng(seed)
    drift = np.exp(np.cumsum(random.normal(0, 0.01, pairs)))
    baseline = 1e4 * drift * np.exp(random.normal(0, noise, pairs))
    candidate = 1e4 * drift * np.exp(random.normal(0, noise, pairs)) / ratio
    return baseline, candidate


@given(seed=SEEDS, pairs=st.integers(5, 400), ratio=st.floats(0.5, 2.0))
@settings(max_examples=25, deadline=None)
def test_swapping_the_sides_turns_the_answer_around(seed: int, pairs: int, ratio: float) -> None:
    baseline, candidate = paired(seed, pairs, ratio=ratio)
    forth, back = estimate(baseline, candidate, seed=seed), estimate(candidate, baseline, seed=seed)
    assert back.ratio == pytest.approx(1 / forth.ratio)
    assert back.interval[0] == pytest.approx(1 / forth.interval[1], rel=1e-2)
    mirrored = {Comparison.FASTER: Comparison.SLOWER, Comparison.SLOWER: Comparison.FASTER}
    answer = judge(forth)
    turned = judge(Estimate(1 / forth.ratio, (1 / forth.interval[1], 1 / forth.interval[0])))
    assert turned is mirrored.get(answer, answer)


@given(seed=SEEDS, pairs=st.integers(5, 600), scale=st.floats(1e-3, 1e6))
@settings(max_examples=25, deadline=None)
def test_the_unit_of_time_does_not_matter(seed: int, pairs: int, scale: float) -> None:
    baseline, candidate = paired(seed, pairs, ratio=1.1)
    plain, scaled = (
        estimate(baseline, candidate, seed=1),
        estimate(baseline * scale, candidate * scale, seed=1),
    )
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert scaled.interval == pytest.approx(plain.interval)


@given(seed=SEEDS, pairs=st.integers(5, 600), ratio=st.floats(0.25, 4.0))
@settings(max_examples=25, deadline=None)
def test_the_ratio_lies_in_its_interval(seed: int, pairs: int, ratio: float) -> None:
    found = estimate(*paired(seed, pairs, ratio=ratio), seed=seed)
    assert found.interval[0] <= found.ratio <= found.interval[1]


@given(seed=SEEDS, ratio=st.floats(1.05, 3.0))
@settings(max_examples=25, deadline=None)
def test_a_shift_is_recovered(seed: int, ratio: float) -> None:
    answer, found, interval = compare(*paired(seed, 300, ratio=ratio, noise=0.02), seed=seed)
    assert answer is Comparison.FASTER
    assert found == pytest.approx(ratio, rel=0.02)
    assert interval[0] > 1.0


@pytest.mark.parametrize("pairs", [9, 30, 200, 1000])
def test_identical_kernels_are_hardly_ever_told_apart(pairs: int) -> None:
    """At a level of 95% and a minimum effect of 1%, at most one in twenty A/A comparisons may be decided."""
    answers = [compare(*paired(seed, pairs), seed=seed)[0] for seed in range(200)]
    wrong = sum(answer in (Comparison.FASTER, Comparison.SLOWER) for answer in answers)
    assert wrong <= 10


def test_enough_quiet_pairs_of_identical_kernels_are_the_same() -> None:
    answers = [compare(*paired(seed, 200, noise=0.01), seed=seed)[0] for seed in range(20)]
    assert answers.count(Comparison.SAME) >= 19


def test_a_few_wild_samples_change_nothing() -> None:
    baseline, candidate = paired(3, 200, ratio=1.2, noise=0.01)
    candidate[::10] *= 50
    assert compare(baseline, candidate)[1] == pytest.approx(1.2, rel=0.02)


def test_a_difference_below_the_minimum_effect_is_no_win() -> None:
    baseline, candidate = paired(0, 400, ratio=1.005, noise=0.002)
    answer, ratio, interval = compare(baseline, candidate, minimum_effect=0.01)
    assert interval[0] > 1.0
    assert ratio < 1.01
    assert answer is Comparison.SAME


@pytest.mark.parametrize(
    ("ratio", "interval", "answer"),
    [
        (1.05, (1.01, 1.09), Comparison.FASTER),
        (1.05, (0.99, 1.11), Comparison.AMBIGUOUS),
        (1.0, (0.985, 1.015), Comparison.SAME),
        (1.0, (0.9, 1.1), Comparison.AMBIGUOUS),
        (0.9, (0.85, 0.95), Comparison.SLOWER),
        (1.009, (1.001, 1.019), Comparison.SAME),
        (1.5, (0.0, float("inf")), Comparison.AMBIGUOUS),
    ],
)
def test_what_an_interval_means(ratio: float, interval: tuple[float, float], answer: Comparison) -> None:
    assert judge(Estimate(ratio, interval), minimum_effect=0.01) is answer


def test_fewer_than_five_pairs_prove_nothing() -> None:
    answer, _, interval = compare([100.0] * 4, [50.0] * 4)
    assert answer is Comparison.AMBIGUOUS
    assert interval == (0.0, float("inf"))


def test_pairs_with_a_missing_half_do_not_count() -> None:
    baseline, candidate = paired(0, 40, ratio=2.0, noise=0.01)
    gaps = candidate.copy()
    gaps[::2] = np.nan
    known = ~np.isnan(gaps)
    assert estimate(baseline, gaps, seed=0) == estimate(baseline[known], candidate[known], seed=0)


@pytest.mark.parametrize(("baseline", "candidate"), [([1.0, 2.0], [1.0]), ([], []), ([float("nan")], [1.0])])
def test_series_that_cannot_be_paired_are_refused(baseline: list[float], candidate: list[float]) -> None:
    with pytest.raises(ValueError, match="pair"):
        compare(baseline, candidate)


def test_stopping_early_needs_a_clear_case() -> None:
    clear, close = paired(0, 60, ratio=1.5, noise=0.02), paired(0, 60, ratio=1.02, noise=0.05)
    assert decided(*clear, minimum_effect=0.01, seed=0)
    assert not decided(*close, minimum_effect=0.01, seed=0)
    assert not decided(clear[0][:10], clear[1][:10], minimum_effect=0.01, seed=0)


def test_a_timing_summarises_its_samples() -> None:
    found = timing([10.0, 20.0, 30.0, 40.0, 50.0, float("nan")])
    assert (found.median_ns, found.samples) == (30.0, 5)
    assert found.p05_ns < found.median_ns < found.p95_ns
    with pytest.raises(ValueError, match="at least one"):
        timing([])


def test_who_only_measures_does_not_pay_for_scipy() -> None:
    program = "import sys, kernelwright.referee; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
