"""What may be concluded from paired times: ratio, interval, p-value, comparison.

Times of baseline and candidate come in pairs, taken one after the other in random order. A pair's log-ratio
is free of what moved both; neighbouring pairs still are not independent, so within one process the interval
comes from a circular block bootstrap (Politis and Romano 1992) of the median log-ratio. It is never narrower
than the 98% interval of the median that order statistics give, which holds for few pairs, too: for five and
six it is all that was seen, whose level is 94% and 97%.

Pairs of one process share its memory layout and its fate, so the process is the unit where several were run
(Kalibera and Jones 2013): the bootstrap then draws processes first and blocks of pairs within them, and the
interval is never narrower than Student's interval of the processes' medians, since a bootstrap of two to five
units spans little more than what those units happened to show.

Who asks for the best of several candidates has as many chances to be lucky: `judge_all` holds the chance of
any false claim at one level by Holm's procedure (1979).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

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
#: From so many pairs on, the stricter level of the order statistics can be had.
_ORDER_PAIRS = 7
#: A baseline against itself: how strict the question whether it differs, and which interval is too wide.
_AA_LEVEL = 0.99
_AA_WIDEST = 10.0

Floats = NDArray[np.float64]
Name = TypeVar("Name")


@dataclass(frozen=True)
class Estimate:
    """A ratio of times (above one: the candidate is faster) and its interval.

    `p` is the two-sided p-value of "the ratio is one", where it was computed; `processes` how many processes
    the pairs come from.
    """

    ratio: float
    interval: tuple[float, float]
    p: float | None = None
    processes: int = 1

    @property
    def half_width(self) -> float:
        """Half the width of the interval, relative to the ratio."""
        return (self.interval[1] - self.interval[0]) / (2.0 * self.ratio)

    @property
    def p_value(self) -> float:
        """`p`, or what a normal distribution of the log-ratio makes of a 95% interval's nearer side."""
        if self.p is not None:
            return self.p
        low, high = self.interval
        near = low if self.ratio >= 1.0 else high
        if self.ratio == 1.0 or not 0.0 < near < math.inf:
            return 1.0
        if near == self.ratio:
            return 0.0
        error = abs(math.log(self.ratio / near)) / NormalDist().inv_cdf(0.975)
        return 2.0 * NormalDist().cdf(-abs(math.log(self.ratio)) / error)


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
    processes: ArrayLike | None = None,
) -> Estimate:
    """Ratio baseline / candidate of paired times, with its bootstrap interval at `level`.

    `processes` names the process of each pair, by any label; None: one process. With several, the ratio is
    the median of the processes' median ratios. The p-value cannot be below 2 / (resamples + 1).

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
    random = np.random.default_rng(seed)
    series = _by_process(logs, paired, processes)
    if len(series) > 1:
        return _across_processes(series, random, level, resamples)
    groups = _condense(logs, MAX_GROUPS)
    centre = float(np.median(groups))
    if logs.size < MIN_PAIRS:
        return _unknown(centre, 1)
    medians = _bootstrap(groups, random, resamples)
    # Few medians of few pairs scatter too little; order statistics hold for any number. Their level is
    # stricter, since neighbouring pairs are less independent than they take them to be.
    ordered = _order_interval(groups, 1.0 - _ORDER_SHARE * (1.0 - level))
    p = max(_bootstrap_p(medians, centre), _sign_p(groups, centre))
    return _widest(centre, p, 1, _percentiles(medians, level), (float(ordered[0]), float(ordered[1])))


def _across_processes(
    series: Sequence[Floats], random: np.random.Generator, level: float, resamples: int
) -> Estimate:
    count = len(series)
    groups = [_condense(one, max(MAX_GROUPS // count, 16)) for one in series]
    own = np.array([np.median(one) for one in groups])
    centre = float(np.median(own))
    if sum(one.size for one in series) < MIN_PAIRS:
        return _unknown(centre, count)
    within = np.stack([_bootstrap(one, random, resamples) for one in groups])
    drawn = random.integers(0, count, size=(resamples, count))
    medians: Floats = np.median(within[drawn, random.integers(0, resamples, size=drawn.shape)], axis=1)
    mean, error = float(own.mean()), float(own.std(ddof=1)) / math.sqrt(count)
    reach = _student_quantile(0.5 + level / 2.0, count - 1) * error
    p = max(_bootstrap_p(medians, centre), _student_p(mean, error, count - 1))
    return _widest(centre, p, count, _percentiles(medians, level), (mean - reach, mean + reach))


def foreseen(ratios: ArrayLike, *, more: int, level: float = 0.95) -> Estimate:
    """What `estimate` would say, about, after `more` processes that scatter as those did whose median ratios
    `ratios` holds, two at least: Student's interval with as many values more."""
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    count = logs.size + more
    mean, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(count)
    reach = _student_quantile(0.5 + level / 2.0, count - 1) * error
    p = _student_p(mean, error, count - 1)
    return _widest(mean, p, count, (mean - reach, mean + reach))


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


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given (Holm 1979): one at most alpha may be rejected at level alpha, and
    the chance of any false rejection stays below alpha, whatever the dependence. Raises ValueError for what
    is no probability."""
    for p in p_values:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"a p-value lies between 0 and 1; got {p}")
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def judge_all(
    found: Mapping[Name, Estimate],
    *,
    minimum_effect: float = 0.01,
    level: float = 0.95,
    same_margin: float | None = None,
    others: int = 0,
) -> dict[Name, Comparison]:
    """What the estimates of several candidates against one baseline say together.

    As `judge`, but `faster` and `slower` also need an adjusted p-value of at most 1 - level; without it they
    are `ambiguous`. One alone is judged as `judge` does. `others` counts further candidates that take part in
    the same choice and are not among `found`, as if nothing were known of them.
    """
    family = len(found) + others
    adjusted = holm([one.p_value for one in found.values()] + [1.0] * others)
    comparisons = {}
    for (name, one), p in zip(found.items(), adjusted, strict=False):
        answer = judge(one, minimum_effect=minimum_effect, same_margin=same_margin)
        claims = answer in (Comparison.FASTER, Comparison.SLOWER)
        unsure = claims and family > 1 and p > 1.0 - level
        comparisons[name] = Comparison.AMBIGUOUS if unsure else answer
    return comparisons


def compare(
    baseline_ns: ArrayLike,
    candidate_ns: ArrayLike,
    *,
    minimum_effect: float = 0.01,
    seed: int = 0,
    same_margin: float | None = None,
    processes: ArrayLike | None = None,
) -> tuple[Comparison, float, tuple[float, float]]:
    """Comparison, ratio baseline / candidate and 95% interval of paired times; see `estimate` and `judge`."""
    found = estimate(baseline_ns, candidate_ns, seed=seed, processes=processes)
    return judge(found, minimum_effect=minimum_effect, same_margin=same_margin), found.ratio, found.interval


def decided(
    baseline_ns: ArrayLike,
    candidate_ns: ArrayLike,
    *,
    minimum_effect: float,
    seed: int,
    pairs: int = 15,
    processes: ArrayLike | None = None,
) -> bool:
    """Whether measuring on would not change the answer: for stopping early, at a stricter level.

    Since the question is asked again and again, `faster` and `slower` need a 99.9% interval that is wholly
    beyond the minimum effect, and `same` one that is wholly within it.
    """
    if np.count_nonzero(np.isfinite(np.asarray(baseline_ns)) & np.isfinite(np.asarray(candidate_ns))) < pairs:
        return False
    low, high = estimate(baseline_ns, candidate_ns, seed=seed, level=0.999, processes=processes).interval
    effect = 1.0 + minimum_effect
    return low > effect or high < 1.0 / effect or (low >= 1.0 / effect and high <= effect)


def aa_gate(
    baseline_ns_a: ArrayLike,
    baseline_ns_b: ArrayLike,
    *,
    minimum_effect: float = 0.01,
    seed: int = 0,
    widest: float | None = None,
    processes: ArrayLike | None = None,
) -> str | None:
    """Why nothing should be compared here, from paired times of the baseline against itself; None: go on.

    Refused are a difference of the baseline from itself of at least the minimum effect that is clear at 99%,
    since the same would be seen of any candidate, and an interval whose half-width is above `widest`
    (relative; ten times the minimum effect when None), in which hardly any effect could be seen.
    Raises ValueError as `estimate` does.
    """
    found = estimate(baseline_ns_a, baseline_ns_b, seed=seed, level=_AA_LEVEL, processes=processes)
    low, high = found.interval
    limit = _AA_WIDEST * minimum_effect if widest is None else widest
    effect = 1.0 + minimum_effect
    if (low > 1.0 and found.ratio >= effect) or (high < 1.0 and found.ratio <= 1.0 / effect):
        return (
            f"the baseline differs from itself: ratio {found.ratio:.3f}, 99% [{low:.3f}, {high:.3f}]; "
            "something else decides the times here; quieten the machine and measure again"
        )
    if found.half_width > limit:
        return (
            f"the machine is too noisy: the baseline against itself is only known within "
            f"[{low:.3f}, {high:.3f}], wider than ±{limit:.0%}; end other work or allow more time"
        )
    return None


def _clean(values: ArrayLike) -> Floats:
    samples = np.asarray(values, dtype=np.float64).ravel()
    return samples[np.isfinite(samples)]


def _by_process(logs: Floats, paired: NDArray[np.bool_], processes: ArrayLike | None) -> list[Floats]:
    if processes is None:
        return [logs]
    labels = np.asarray(processes)
    if labels.shape != paired.shape:
        raise ValueError(f"each pair needs its process; got {labels.shape} labels for {paired.shape} pairs")
    of_pair = labels[paired]
    return [logs[of_pair == label] for label in np.unique(of_pair)]


def _condense(logs: Floats, most: int) -> Floats:
    """Medians of at most `most` runs of neighbouring pairs."""
    if logs.size <= most:
        return logs
    run = -(-logs.size // most)
    whole = logs.size // run * run
    groups: Floats = np.median(logs[:whole].reshape(-1, run), axis=1)
    return groups


def _unknown(centre: float, processes: int) -> Estimate:
    return Estimate(math.exp(centre), (0.0, math.inf), 1.0, processes)


def _widest(centre: float, p: float, processes: int, *intervals: tuple[float, float]) -> Estimate:
    """The estimate whose interval spans all of these, which are of the log-ratio, and the centre."""
    low = min(centre, *(one[0] for one in intervals))
    high = max(centre, *(one[1] for one in intervals))
    return Estimate(math.exp(centre), (_exp(low), _exp(high)), min(p, 1.0), processes)


def _exp(value: float) -> float:
    """Two processes that disagree can have an interval that reaches beyond what a float holds."""
    return math.exp(value) if value < 700.0 else math.inf


def _percentiles(medians: Floats, level: float) -> tuple[float, float]:
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(medians, (tail, 100.0 - tail))
    return float(low), float(high)


def _bootstrap_p(medians: Floats, centre: float) -> float:
    beyond = np.count_nonzero(medians <= 0.0 if centre > 0.0 else medians >= 0.0)
    return 2.0 * (beyond + 1.0) / (medians.size + 1.0)


def _sign_p(groups: Floats, centre: float) -> float:
    """The sign test, at the stricter level of the order statistics where that can be had."""
    beyond = int(np.count_nonzero(groups <= 0.0 if centre > 0.0 else groups >= 0.0))
    p = sum(math.comb(groups.size, k) for k in range(beyond + 1)) / 2.0 ** (groups.size - 1)
    return p / _ORDER_SHARE if groups.size >= _ORDER_PAIRS else p


def _student_quantile(q: float, freedom: int) -> float:
    from scipy.special import stdtrit  # of no use to children that only measure

    return float(stdtrit(freedom, q))


def _student_p(mean: float, error: float, freedom: int) -> float:
    from scipy.special import stdtr

    if error == 0.0:
        return 0.0 if mean else 1.0
    return 2.0 * float(stdtr(freedom, -abs(mean) / error))


def _order_interval(values: Floats, level: float) -> Floats:
    """The distribution-free interval of the median at `level` or wider, from order statistics; of too few
    values for that, from the least to the greatest."""
    rank = _order_rank(values.size, level)
    ordered = np.sort(values)
    return np.array([ordered[max(rank - 1, 0)], ordered[min(values.size - rank, values.size - 1)]])


@functools.cache
def _order_rank(count: int, level: float) -> int:
    """The least k with P(binomial(count, 1/2) <= k) >= (1 - level) / 2."""
    wanted = (1.0 - level) / 2.0 * 2**count
    reached = 0
    for k in range(count + 1):
        reached += math.comb(count, k)
        if reached >= wanted:
            return k
    return count


def _bootstrap(values: Floats, random: np.random.Generator, resamples: int) -> Floats:
    """Medians of circular block resamples; blocks of about the cube root of the length."""
    count = values.size
    length = max(1, round(count ** (1.0 / 3.0)))
    blocks = -(-count // length)
    starts = random.integers(0, count, size=(resamples, blocks, 1))
    # Ranks in place of the values: small integers are sorted several times as fast, and the median of a
    # resample is the value, or the mean of the two values, in its middle all the same.
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values).astype(np.uint16)
    circle = np.concatenate((ranks, ranks[:length]))
    drawn = circle[(starts + np.arange(length)).reshape(resamples, -1)[:, :count]]
    drawn.sort(axis=1)
    medians: Floats = 0.5 * (ordered[drawn[:, (count - 1) // 2]] + ordered[drawn[:, count // 2]])
    return medians
