"""What may be concluded from paired times: ratio, interval, comparison.

Times of baseline and candidate come in pairs, taken one after the other in random order. A pair's log-ratio
is free of what moved both; neighbouring pairs still are not independent, so the interval comes from a
circular block bootstrap (Politis and Romano 1992) of the median log-ratio. It is never narrower than the
98% interval of the median that order statistics give, which holds for few pairs, too: for five and six it is
all that was seen, whose level is 94% and 97%.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from numpy.typing import NDArray

from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Timing

RESAMPLES = 1000
#: Longer series are first condensed to medians of neighbouring pairs.
MAX_GROUPS = 256
MIN_PAIRS = 5
_ORDER_SHARE = 0.4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A ratio of times (above one: the candidate is faster) and its interval."""

    ratio: float
    interval: tuple[float, float]

    @property
    def half_width(self) -> float:
        """Half the width of the interval, relative to the ratio."""
        return (self.interval[1] - self.interval[0]) / (2.0 * self.ratio)


def timing(samples_ns: ArrayLike) -> Timing:
    """The summary of one contestant's times. Raises ValueError when there is none.

    `relative_sd` is robust: 1.4826 times the median absolute deviation, over the median.
    """
    samples = _clean(samples_ns)
    if not samples.size:
        raise ValueError("a timing needs at least one sample")
    median, p05, p95 = (float(value) for value in np.percentile(samples, (50, 5, 95)))
    deviation = 1.4826 * float(np.median(np.abs(samples - median)))
    return Timing(median, p05, p95, int(samples.size), deviation / median if median else 0.0)


def estimate(
    baseline_ns: ArrayLike,
    candidate_ns: ArrayLike,
    *,
    seed: int,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Ratio baseline / candidate of paired times, with its bootstrap interval at `level`.

    Pairs in which either time is missing (NaN) do not count. With fewer than five pairs the interval is
    (0, inf): nothing can be concluded. Raises ValueError when the series differ in length or no pair is left.
    """
    baseline = np.asarray(baseline_ns, dtype=np.float64)
    candidate = np.asarray(candidate_ns, dtype=np.float64)
    if baseline.shape != candidate.shape or baseline.ndim != 1:
        raise ValueError(f"pairs need two series of one length; got {baseline.shape} and {candidate.shape}")
    paired = np.isfinite(baseline) & np.isfinite(candidate) & (baseline > 0) & (candidate > 0)
    logs: Floats = np.log(baseline[paired]) - np.log(candidate[paired])
    if not logs.size:
        raise ValueError("no pair of times to compare")
    groups = _condense(logs)
    ratio = float(np.exp(np.median(groups)))
    if logs.size < MIN_PAIRS:
        return Estimate(ratio, (0.0, float("inf")))
    medians = _bootstrap(groups, np.random.default_rng(seed), resamples)
    tail = 50.0 * (1.0 - level)
    low, high = np.exp(np.percentile(medians, (tail, 100.0 - tail)))
    # Few medians of few pairs scatter too little; order statistics hold for any number. Their level is
    # stricter, since neighbouring pairs are less independent than they take them to be.
    ordered = np.exp(_order_interval(groups, 1.0 - _ORDER_SHARE * (1.0 - level)))
    low, high = min(low, ordered[0]), max(high, ordered[1])
    return Estimate(ratio, (min(float(low), ratio), max(float(high), ratio)))


def judge(found: Estimate, *, minimum_effect: float = 0.01, same_margin: float | None = None) -> Comparison:
    """What an estimate says, in this order.

    `faster`: the whole interval is above one and the ratio is at least 1 + minimum_effect.
    `slower`: the whole interval is below one and the ratio is at most 1 / (1 + minimum_effect).
    `same`: the whole interval lies within [1 / (1 + m), 1 + m], where m is `same_margin` or, by default,
    twice the minimum effect.
    `ambiguous`: all else; more or quieter measurements are needed.
    """
    low, high = found.interval
    margin = 1.0 + (2.0 * minimum_effect if same_margin is None else same_margin)
    effect = 1.0 + minimum_effect
    if low > 1.0 and found.ratio >= effect:
        return Comparison.FASTER
    if high < 1.0 and found.ratio <= 1.0 / effect:
        return Comparison.SLOWER
    if low >= 1.0 / margin and high <= margin:
        return Comparison.SAME
    return Comparison.AMBIGUOUS


def compare(
    baseline_ns: ArrayLike,
    candidate_ns: ArrayLike,
    *,
    minimum_effect: float = 0.01,
    seed: int = 0,
    same_margin: float | None = None,
) -> tuple[Comparison, float, tuple[float, float]]:
    """Comparison, ratio baseline / candidate and 95% interval of paired times; see `estimate` and `judge`."""
    found = estimate(baseline_ns, candidate_ns, seed=seed)
    return judge(found, minimum_effect=minimum_effect, same_margin=same_margin), found.ratio, found.interval


def decided(
    baseline_ns: ArrayLike, candidate_ns: ArrayLike, *, minimum_effect: float, seed: int, pairs: int = 15
) -> bool:
    """Whether measuring on would not change the answer: for stopping early, at a stricter level.

    Since the question is asked again and again, `faster` and `slower` need a 99.9% interval that is wholly
    beyond the minimum effect, and `same` one that is wholly within it.
    """
    if np.count_nonzero(np.isfinite(np.asarray(baseline_ns)) & np.isfinite(np.asarray(candidate_ns))) < pairs:
        return False
    low, high = estimate(baseline_ns, candidate_ns, seed=seed, level=0.999).interval
    effect = 1.0 + minimum_effect
    return low > effect or high < 1.0 / effect or (low >= 1.0 / effect and high <= effect)


def _clean(values: ArrayLike) -> Floats:
    samples = np.asarray(values, dtype=np.float64).ravel()
    return samples[np.isfinite(samples)]


def _condense(logs: Floats) -> Floats:
    """Medians of at most MAX_GROUPS runs of neighbouring pairs."""
    if logs.size <= MAX_GROUPS:
        return logs
    run = -(-logs.size // MAX_GROUPS)
    whole = logs.size // run * run
    groups: Floats = np.median(logs[:whole].reshape(-1, run), axis=1)
    return groups


def _order_interval(values: Floats, level: float) -> Floats:
    """The distribution-free interval of the median at `level` or wider, from order statistics; of too few
    values for that, from the least to the greatest."""
    rank = _order_rank(values.size, level)
    ordered = np.sort(values)
    return np.array([ordered[max(rank - 1, 0)], ordered[min(values.size - rank, values.size - 1)]])


@functools.cache
def _order_rank(count: int, level: float) -> int:
    from scipy.stats import binom  # a second to import, which children that only measure need not spend

    return int(binom.ppf((1.0 - level) / 2.0, count, 0.5))


def _bootstrap(values: Floats, random: np.random.Generator, resamples: int) -> Floats:
    """Medians of circular block resamples; blocks of about the cube root of the length."""
    count = values.size
    length = max(1, round(count ** (1.0 / 3.0)))
    blocks = -(-count // length)
    starts = random.integers(0, count, size=(resamples, blocks, 1))
    index = ((starts + np.arange(length)) % count).reshape(resamples, -1)[:, :count]
    medians: Floats = np.median(values[index], axis=1)
    return medians
