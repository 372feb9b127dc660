"""A gate of another kind: what published CPU kernel benchmarks ask of a win, all of it at once.

Welch's t-test (1947) on the samples of both sides, taken as independent, with Cohen's d (1988) as the size of
the effect, and guards against three ways to look faster: a single lucky minimum, a tail that got longer while
the middle got shorter, and a best of many that is not there a second time. It knows nothing of pairs: where
the machine drifts it sees less than the paired interval does, and it takes neighbouring samples for
independent; so it is a mode beside that interval, for comparison with results published elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kernelwright.referee._statistics import Floats
from kernelwright.referee._verdict import Comparison


@dataclass(frozen=True)
class Condition:
    """One thing the gate asks, whether it holds, and the numbers in words."""

    name: str
    held: bool
    text: str


@dataclass(frozen=True)
class WelchGate:
    """The thresholds, and what they make of samples.

    `p`: two-sided p-value of Welch's test below which means differ; `effect`: the least Cohen's d; `warmups`
    and `trials`: the least number of calls before measuring, and of samples of each side; `wider`: how much
    wider than the baseline's the candidate's range from the 5th to the 95th percentile may be; `margin`:
    within which the interval of the ratio of means has to lie for `same`.
    """

    p: float = 0.05
    effect: float = 0.2
    warmups: int = 50
    trials: int = 100
    wider: float = 0.25
    margin: float = 0.02

    def judge(
        self,
        baseline_ns: ArrayLike,
        candidate_ns: ArrayLike,
        *,
        warmups: int,
        processes: ArrayLike | None = None,
    ) -> tuple[Comparison, list[str]]:
        """The comparison, and in words what kept it from being `faster` (nothing, when it is).

        `slower` is what would be `faster` with the sides exchanged; `same` that the interval of the ratio of
        means lies within the margin. Parameters and errors are those of `conditions`.
        """
        found = self.conditions(baseline_ns, candidate_ns, warmups=warmups, processes=processes)
        reasons = [one.text for one in found if not one.held]
        if not reasons:
            return Comparison.FASTER, []
        turned = self.conditions(candidate_ns, baseline_ns, warmups=warmups, processes=processes)
        if all(one.held for one in turned if one.name != "spread"):
            return Comparison.SLOWER, reasons
        enough = all(one.held for one in found if one.name in ("warmups", "trials"))
        if enough and self._within_margin(_known(baseline_ns), _known(candidate_ns)):
            return Comparison.SAME, reasons
        return Comparison.AMBIGUOUS, reasons

    def conditions(
        self,
        baseline_ns: ArrayLike,
        candidate_ns: ArrayLike,
        *,
        warmups: int,
        processes: ArrayLike | None = None,
    ) -> tuple[Condition, ...]:
        """Each condition of a win: trials, warmups, mean, welch, effect, minimum, spread, repeats.

        `warmups` is the number of calls of each side before the first sample. `processes` names the process
        of each sample, the same for both sides; the win has to be there in each of them, or, where there is
        one only, in both halves of its samples. Samples that are missing (NaN) do not count. Raises
        ValueError with fewer than four samples of a side, or labels of another number than samples.
        """
        baseline, candidate = _known(baseline_ns), _known(candidate_ns)
        if min(baseline.size, candidate.size) < 4:
            raise ValueError(
                f"the gate needs four samples of each side; got {baseline.size} and {candidate.size}"
            )
        fewest = min(baseline.size, candidate.size)
        ours, theirs = float(candidate.mean()), float(baseline.mean())
        p, freedom = _welch(baseline, candidate)
        d = _cohen(baseline, candidate)
        return (
            Condition("trials", fewest >= self.trials, f"{fewest} trials; {self.trials} are asked for"),
            Condition(
                "warmups", warmups >= self.warmups, f"{warmups} warm-ups; {self.warmups} are asked for"
            ),
            Condition("mean", ours < theirs, f"mean {ours:.4g} ns against the baseline's {theirs:.4g} ns"),
            Condition(
                "welch",
                p < self.p,
                f"Welch's test gives p = {p:.3g} ({freedom:.0f} degrees of freedom); "
                f"below {self.p:g} is asked for",
            ),
            Condition("effect", d > self.effect, f"Cohen's d is {d:.2f}; above {self.effect:g} is asked for"),
            _lucky_minimum(baseline, candidate),
            self._spread(baseline, candidate),
            _repeats(_parts(baseline_ns, processes), _parts(candidate_ns, processes)),
        )

    def _spread(self, baseline: Floats, candidate: Floats) -> Condition:
        ours, theirs = (float(np.subtract(*np.percentile(one, (95, 5)))) for one in (candidate, baseline))
        return Condition(
            "spread",
            ours <= (1.0 + self.wider) * theirs,
            f"p5 to p95 spans {ours:.4g} ns against the baseline's {theirs:.4g} ns; "
            f"up to {self.wider:.0%} more is allowed",
        )

    def _within_margin(self, baseline: Floats, candidate: Floats) -> bool:
        """Whether the 95% interval of the difference of means is within the margin of the baseline's mean."""
        from scipy.special import stdtrit

        _, freedom = _welch(baseline, candidate)
        reach = float(stdtrit(freedom, 0.975)) * math.sqrt(
            _squared_error(baseline) + _squared_error(candidate)
        )
        return abs(float(baseline.mean() - candidate.mean())) + reach <= self.margin * float(baseline.mean())


def _known(values: ArrayLike) -> Floats:
    samples = np.asarray(values, dtype=np.float64).ravel()
    return samples[np.isfinite(samples)]


def _squared_error(samples: Floats) -> float:
    return float(samples.var(ddof=1)) / samples.size


def _welch(baseline: Floats, candidate: Floats) -> tuple[float, float]:
    """Two-sided p-value and degrees of freedom (Welch and Satterthwaite)."""
    from scipy.special import stdtr  # a tenth of a second to import, which other gates need not spend

    ours, theirs = _squared_error(candidate), _squared_error(baseline)
    difference = float(baseline.mean() - candidate.mean())
    if ours + theirs == 0.0:
        return (0.0 if difference else 1.0), float(baseline.size + candidate.size - 2)
    freedom = (ours + theirs) ** 2 / (ours**2 / (candidate.size - 1) + theirs**2 / (baseline.size - 1))
    return 2.0 * float(stdtr(freedom, -abs(difference) / math.sqrt(ours + theirs))), freedom


def _cohen(baseline: Floats, candidate: Floats) -> float:
    """Difference of means over the pooled standard deviation, positive where the candidate is faster."""
    weights = baseline.size - 1, candidate.size - 1
    pooled = (weights[0] * baseline.var(ddof=1) + weights[1] * candidate.var(ddof=1)) / sum(weights)
    difference = float(baseline.mean() - candidate.mean())
    if pooled == 0.0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / math.sqrt(float(pooled))


def _lucky_minimum(baseline: Floats, candidate: Floats) -> Condition:
    """A win in the minimum that the median does not share."""
    least = candidate.min() < baseline.min()
    middle = float(np.median(candidate)), float(np.median(baseline))
    text = f"median {middle[0]:.4g} ns against {middle[1]:.4g} ns, minimum {candidate.min():.4g} ns against "
    text += f"{baseline.min():.4g} ns"
    lucky = middle[0] >= middle[1]
    if lucky and least:
        text = f"it wins only in the minimum: {text}"
    return Condition("minimum", not lucky, text)


def _parts(values: ArrayLike, processes: ArrayLike | None) -> list[Floats]:
    """The samples by process; those of one process in two halves."""
    samples = np.asarray(values, dtype=np.float64).ravel()
    labels = np.zeros(samples.size) if processes is None else np.asarray(processes)
    if labels.shape != samples.shape:
        raise ValueError(
            f"each sample needs its process; got {labels.size} labels for {samples.size} samples"
        )
    parts = [_known(samples[labels == label]) for label in np.unique(labels)]
    return parts if len(parts) > 1 else list(np.array_split(parts[0], 2))


def _repeats(baseline: Sequence[Floats], candidate: Sequence[Floats]) -> Condition:
    pairs = [
        (mine, theirs) for mine, theirs in zip(candidate, baseline, strict=False) if mine.size and theirs.size
    ]
    won = sum(float(np.median(mine)) < float(np.median(theirs)) for mine, theirs in pairs)
    return Condition(
        "repeats",
        won == len(pairs),
        f"the median is lower in {won} of {len(pairs)} repetitions; in all is asked for",
    )
