"""How much scores of the same thing scatter, and whether they drift, from evaluations made more than once."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.space import key

if TYPE_CHECKING:
    from kernelwright.search._evaluation import Evaluation

#: So many baselines are needed before they can show a trend at the 5% level.
LEAST_FOR_DRIFT = 5


@dataclass(frozen=True)
class Drift:
    """The trend of the baseline: its relative change over the run, and the p-value of Kendall's test."""

    change: float
    p: float
    count: int


@dataclass(frozen=True)
class Noise:
    """The standard deviation of one score: in proportion to the score where `relative`, else as it is.

    `count` differences of repeats were seen.
    """

    deviation: float
    relative: bool
    count: int

    def at(self, score: float) -> float:
        """The standard deviation of a score of about this value."""
        return self.deviation * abs(score) if self.relative else self.deviation

    def __str__(self) -> str:
        return f"{self.deviation:.2%}" if self.relative else f"{self.deviation:.2g}"


def noise(evaluations: Sequence[Evaluation], objective: int) -> Noise | None:
    """How much one score of one thing scatters, from things that were scored more than once.

    From differences of neighbouring repeats (von Neumann 1941), which slow drift does not inflate; their
    median, which single disturbances do not. Where all scores are positive, in proportion to the score, as
    times and rates scatter. None where there are fewer than three such differences.
    """
    repeats: dict[str, list[float]] = defaultdict(list)
    for one in evaluations:
        if one.scores is not None:
            name = "baseline" if one.baseline else key(one.configuration)
            repeats[name].append(one.scores[objective])
    repeats = {name: series for name, series in repeats.items() if len(series) > 1}
    relative = all(value > 0 for series in repeats.values() for value in series)
    differences = [
        abs(math.log(after / before)) if relative else abs(after - before)
        for series in repeats.values()
        for before, after in itertools.pairwise(series)
    ]
    if len(differences) < 3:
        return None
    # The median of |x − y| of two normal values of deviation s is 0.9539 s.
    return Noise(statistics.median(differences) / 0.9539, relative, len(differences))


def drift(baselines: Sequence[Evaluation], objective: int) -> Drift | None:
    """The trend of the baseline's score over time: Theil and Sen's slope, Kendall's test of its sign.

    None where there are fewer than five, or all are equal.
    """
    scores = [(one.started_at or float(one.number), one.scores[objective]) for one in baselines if one.scores]
    values = [value for _, value in scores]
    if len(scores) < LEAST_FOR_DRIFT or min(values) == max(values):
        return None
    from scipy.stats import kendalltau
    from scipy.stats import theilslopes

    times = [at for at, _ in scores]
    slope = float(theilslopes(values, times)[0])
    middle = statistics.median(values)
    if middle == 0:
        return None
    change = slope * (max(times) - min(times)) / abs(middle)
    p = float(kendalltau(times, values).pvalue)
    return Drift(change, 1.0 if math.isnan(p) else p, len(scores))


def luck(noise: Noise, score: float, count: int) -> float:
    """By how much the best of `count` equals of about this score may look better than it is, by noise alone.

    The 99% quantile of the largest of so many deviations, which a noise that was seen few times widens
    (Student's; a median of differences is worth about half of its count).
    """
    from scipy.stats import t

    freedom = max(noise.count // 2, 1)
    return noise.at(score) * float(t.ppf(0.99 ** (1.0 / max(count, 1)), freedom))
