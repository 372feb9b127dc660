"""What paired times allow to conclude."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright.referee import _statistics
from kernelwright.referee import compare
from kernelwright.referee import Comparison
from kernelwright.referee import timing
from kernelwright.referee._statistics import aa_gate
from kernelwright.referee._statistics import decided
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import holm
from kernelwright.referee._statistics import judge
from kernelwright.referee._statistics import judge_all
from kernelwright.referee._stopping import bail_out
from kernelwright.referee._stopping import enough
from kernelwright.referee._stopping import noise_is_stable
from kernelwright.referee._stopping import relative_error

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


def grouped(
    seed: int, processes: int, pairs: int, *, ratio: float = 1.0, between: float = 0.01, noise: float = 0.03
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of several processes, each of which shifts the candidate by its own luck."""
    random = np.random.default_rng(seed)
    luck = np.repeat(random.normal(0, between, processes), pairs)
    baseline = 1e4 * np.exp(random.normal(0, noise, processes * pairs))
    candidate = 1e4 * np.exp(luck + random.normal(0, noise, processes * pairs)) / ratio
    return baseline, candidate, np.repeat(np.arange(processes), pairs)


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_what_differs_between_processes_is_in_the_interval(processes: int) -> None:
    """Processes that differ by 2% from each other: pooled pairs claim to know the ratio to 0.5%."""
    right = claimed = pooled = 0
    for seed in range(150):
        baseline, candidate, labels = grouped(seed, processes, 100, between=0.02, noise=0.02)
        found = estimate(baseline, candidate, seed=seed, processes=labels, resamples=200)
        right += found.interval[0] <= 1.0 <= found.interval[1]
        claimed += judge(found) in (Comparison.FASTER, Comparison.SLOWER)
        flat = judge(estimate(baseline, candidate, seed=seed, resamples=200))
        pooled += flat in (Comparison.FASTER, Comparison.SLOWER)
    assert right >= 0.93 * 150
    assert claimed <= 0.08 * 150
    assert pooled >= 2 * claimed, (claimed, pooled)


def test_processes_that_agree_prove_a_difference_of_three_percent() -> None:
    answers = [
        compare(*pairs[:2], processes=pairs[2], seed=seed)[0]
        for seed in range(40)
        for pairs in [grouped(seed, 3, 100, ratio=1.03, between=0.001, noise=0.02)]
    ]
    assert answers.count(Comparison.FASTER) >= 38


def test_one_odd_process_of_five_does_not_move_the_ratio() -> None:
    baseline, candidate, labels = grouped(1, 5, 50, ratio=1.2, between=0.001)
    candidate[labels == 4] *= 1.5
    found = estimate(baseline, candidate, seed=0, processes=labels)
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    assert found.interval[0] < 1.1
    assert found.processes == 5


def test_labels_of_one_process_change_nothing() -> None:
    baseline, candidate = paired(0, 40, ratio=1.1)
    labelled = estimate(baseline, candidate, seed=0, processes=["a"] * 40)
    assert labelled == estimate(baseline, candidate, seed=0)
    with pytest.raises(ValueError, match="each pair needs its process"):
        estimate(baseline, candidate, seed=0, processes=[1, 2])


def test_processes_of_few_pairs_prove_nothing() -> None:
    found = estimate([100.0] * 4, [50.0] * 4, seed=0, processes=[0, 1, 2, 3])
    assert found.interval == (0.0, float("inf"))
    assert found.p_value == 1.0


@given(seed=SEEDS, pairs=st.integers(9, 300), ratio=st.floats(0.9, 1.1), processes=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_p_value_says_whether_the_interval_holds_one(
    seed: int, pairs: int, ratio: float, processes: int
) -> None:
    baseline, candidate, labels = grouped(seed, processes, pairs, ratio=ratio)
    found = estimate(baseline, candidate, seed=seed, processes=labels)
    outside = not found.interval[0] <= 1.0 <= found.interval[1]
    if found.p_value < 0.035:
        assert outside
    if found.p_value > 0.065:
        assert not outside


def test_p_values_of_identical_kernels_are_not_too_small() -> None:
    small = [estimate(*paired(seed, 60), seed=seed, resamples=300).p_value <= 0.05 for seed in range(200)]
    assert sum(small) <= 14


@pytest.mark.parametrize(
    ("ratio", "interval", "p"),
    [(1.1, (1.0, 1.21), 0.05), (1.0, (0.9, 1.1), 1.0), (1.5, (0.0, np.inf), 1.0), (1.3, (1.3, 1.3), 0.0)],
)
def test_an_interval_alone_gives_a_p_value(ratio: float, interval: tuple[float, float], p: float) -> None:
    assert Estimate(ratio, interval).p_value == pytest.approx(p, abs=1e-6)


def test_holm_s_example() -> None:
    """0.01 of three counts thrice, 0.02 twice; none counts for less than one before it."""
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([1.2])


def test_the_best_of_ten_identical_kernels_is_no_discovery() -> None:
    alone = together = 0
    for seed in range(100):
        found = {
            name: estimate(*paired(100 * seed + name, 30), seed=seed, resamples=400) for name in range(10)
        }
        claims = [judge(one, minimum_effect=0.0) for one in found.values()]
        alone += any(answer in (Comparison.FASTER, Comparison.SLOWER) for answer in claims)
        jointly = judge_all(found, minimum_effect=0.0)
        together += any(answer in (Comparison.FASTER, Comparison.SLOWER) for answer in jointly.values())
    assert alone >= 10
    assert together <= 5


def test_one_candidate_is_judged_as_ever_and_unknown_others_count() -> None:
    found = Estimate(1.05, (1.005, 1.1), 0.03)
    assert judge_all({"a": found}) == {"a": Comparison.FASTER}
    assert judge_all({"a": found}, others=1) == {"a": Comparison.AMBIGUOUS}
    clear = Estimate(1.05, (1.04, 1.06), 0.002)
    assert judge_all({"a": found, "b": clear}) == {"a": Comparison.FASTER, "b": Comparison.FASTER}


def test_a_baseline_that_differs_from_itself_stops_everything() -> None:
    assert aa_gate(*paired(0, 100, noise=0.02)) is None
    shifted = paired(0, 100, ratio=1.04, noise=0.02)
    assert "the baseline differs from itself: ratio 1.0" in (aa_gate(*shifted) or "")
    wild = paired(0, 12, noise=0.5)
    assert "too noisy" in (aa_gate(*wild) or "")
    assert "±10%" in (aa_gate(*wild) or "")
    assert aa_gate(*wild, widest=5.0) is None


def test_the_gate_hardly_ever_stops_a_sound_machine() -> None:
    refused = [aa_gate(*paired(seed, 40, noise=0.03), seed=seed) for seed in range(200)]
    assert sum(reason is not None for reason in refused) <= 4


def test_the_relative_error_is_that_of_the_median() -> None:
    random = np.random.default_rng(0)
    medians = [np.median(random.normal(100, 5, 80)) for _ in range(300)]
    told = [relative_error(random.normal(100, 5, 80)) for _ in range(300)]
    assert np.median(told) == pytest.approx(np.std(medians) / 100, rel=0.25)
    assert relative_error([5.0, 6.0]) == float("inf")


def test_samples_that_follow_each_other_count_for_less() -> None:
    random = np.random.default_rng(0)
    wandering = 100 + np.convolve(random.normal(0, 5, 420), np.ones(21) / 21, "valid")
    assert relative_error(wandering) > 2 * relative_error(random.permutation(wandering))


def test_measuring_stops_when_precise_or_as_noisy_as_ever() -> None:
    random = np.random.default_rng(0)
    quiet, loud = random.normal(100, 0.5, 600), random.normal(100, 20, 600)
    assert enough(quiet[:9]) is None
    assert (enough(quiet[:40]) or "").startswith("the median is known to 0.")
    assert enough(loud[:20]) is None
    assert "noise is stable at 18.8%" in (enough(loud) or "")
    growing = loud.copy()
    growing[300:] = 100 + (growing[300:] - 100) * np.linspace(1, 8, 300)
    assert not noise_is_stable(growing)
    assert not noise_is_stable(loud[:63])


def test_a_candidate_far_behind_the_incumbent_is_given_up_early() -> None:
    baseline, candidate = paired(0, 60, ratio=1.0, noise=0.02)
    assert bail_out(baseline[:3], candidate[:3], best=1.4)
    assert not bail_out(baseline[:2], candidate[:2], best=1.4)
    assert not bail_out(baseline[:3], candidate[:3], best=1.1)
    assert bail_out(baseline, candidate, best=1.1)
    assert not bail_out([np.nan], [1.0], best=9.0)
    with pytest.raises(ValueError, match="one length"):
        bail_out([1.0], [1.0, 2.0], best=1.0)


def test_an_equal_of_the_incumbent_is_hardly_ever_given_up() -> None:
    given_up = 0
    for seed in range(40):
        baseline, candidate = paired(seed, 60, ratio=1.1, noise=0.05)
        looks = range(3, 61, 6)
        given_up += any(bail_out(baseline[:n], candidate[:n], best=1.1, seed=seed) for n in looks)
    assert given_up <= 1


@pytest.mark.parametrize("count", [5, 8, 64, 256])
def test_the_bootstrap_is_of_medians_of_circular_blocks(count: int) -> None:
    values = np.round(np.random.default_rng(count).standard_normal(count), 1)  # some of them equal
    length = round(count ** (1.0 / 3.0))
    starts = np.random.default_rng(7).integers(0, count, size=(200, -(-count // length), 1))
    index = ((starts + np.arange(length)) % count).reshape(200, -1)[:, :count]
    found = _statistics._bootstrap(values, np.random.default_rng(7), 200)
    assert np.array_equal(found, np.median(values[index], axis=1))
