"""When to stop measuring: precise enough, as precise as it gets, or not worth it. Pure functions of times.

After nvbench (NVIDIA, `stdrel` and `entropy` criteria): stop when the relative error is below 0.5% over at
least ten samples, or when the estimate of the noise itself no longer moves, so that more samples of this
machine would tell nothing new. nvbench looks at the standard deviation of the mean; here it is that of the
median, from order statistics (McKean and Schrader 1984), widened where neighbouring samples agree with each
other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import Floats
from kernelwright.referee._statistics import MIN_PAIRS

#: Samples below which nothing is called precise, and the relative error that is.
LEAST = 10
PRECISE = 0.005
#: The noise is stable when its estimates over the last half of the samples stay this near to each other.
_STEADY = 0.05
_STEADY_LEAST = 64
_LOOKS = 8
#: A candidate that was this many times slower in each of its first pairs needs no interval.
_FAR = 1.25
_FAR_PAIRS = 3


def relative_error(samples_ns: ArrayLike) -> float:
    """The standard error of the median of one contestant's times, relative to the median.

    Infinite for fewer than three samples. Missing samples (NaN) do not count.
    """
    samples = _known(samples_ns)
    count = samples.size
    if count < 3:
        return math.inf
    ordered = np.sort(samples)
    rank = max(0, math.floor((count + 1) / 2.0 - math.sqrt(count)))
    low, high = ordered[max(rank - 1, 0)], ordered[min(count - rank, count - 1)]
    # The two order statistics lie two standard errors from the median each.
    error = (high - low) / 4.0
    return float(error * math.sqrt(_inflation(samples)) / np.median(samples))


def noise_is_stable(samples_ns: ArrayLike) -> bool:
    """Whether the relative robust deviation has settled: its estimates at eight points of the last half of
    the samples differ by less than 5% (standard deviation over mean). Never with fewer than 64 samples."""
    samples = _known(samples_ns)
    if samples.size < _STEADY_LEAST:
        return False
    looks = np.linspace(samples.size // 2, samples.size, _LOOKS).astype(int)
    noise = np.array([_relative_deviation(samples[:count]) for count in looks])
    return bool(noise.std() <= _STEADY * noise.mean())


def enough(samples_ns: ArrayLike, *, error: float = PRECISE, least: int = LEAST) -> str | None:
    """Why measuring may stop, in words; None: measure on.

    Either the relative error is below `error` over at least `least` samples, or the noise is stable. A cap on
    time and samples is the caller's.
    """
    samples = _known(samples_ns)
    if samples.size < least:
        return None
    found = relative_error(samples)
    if found < error:
        return f"the median is known to {found:.2%} over {samples.size} samples"
    if noise_is_stable(samples):
        noise = _relative_deviation(samples)
        return f"the noise is stable at {noise:.1%} of the median over {samples.size} samples"
    return None


def bail_out(
    baseline_ns: ArrayLike,
    candidate_ns: ArrayLike,
    *,
    best: float,
    minimum_effect: float = 0.01,
    level: float = 0.999,
    seed: int = 0,
) -> bool:
    """Whether a candidate is clearly slower than the incumbent and need not be measured on.

    `best` is the incumbent's ratio to the same baseline. Clear is: three or more pairs, each more than 25%
    short of it, or an interval at `level` that ends below it by the minimum effect. Says nothing (False)
    while no pair is known. Raises ValueError when the series differ in length.
    """
    baseline = np.asarray(baseline_ns, dtype=np.float64)
    candidate = np.asarray(candidate_ns, dtype=np.float64)
    if baseline.shape != candidate.shape:
        raise ValueError(f"pairs need two series of one length; got {baseline.shape} and {candidate.shape}")
    paired = np.isfinite(baseline) & np.isfinite(candidate) & (candidate > 0) & (baseline > 0)
    ratios = baseline[paired] / candidate[paired]
    if ratios.size >= _FAR_PAIRS and bool(np.all(ratios * _FAR < best)):
        return True
    if ratios.size < MIN_PAIRS + 1:
        return False
    found = estimate(baseline[paired], candidate[paired], seed=seed, level=level)
    return found.interval[1] * (1.0 + minimum_effect) < best


def _known(values: ArrayLike) -> Floats:
    samples = np.asarray(values, dtype=np.float64).ravel()
    return samples[np.isfinite(samples)]


def _relative_deviation(samples: Floats) -> float:
    median = float(np.median(samples))
    return 1.4826 * float(np.median(np.abs(samples - median))) / median if median else 0.0


def _inflation(samples: Floats) -> float:
    """How many samples count as one: (1 + r) / (1 - r), r the correlation of neighbours' ranks."""
    ranks = np.argsort(np.argsort(samples)).astype(np.float64)
    ranks -= ranks.mean()
    power = float(ranks @ ranks)
    if power == 0.0:
        return 1.0
    correlation = min(max(float(ranks[:-1] @ ranks[1:]) / power, 0.0), 0.9)
    return (1.0 + correlation) / (1.0 - correlation)
