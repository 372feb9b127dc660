"""The fewest settings that keep a win: what can be put back to the reference without losing it is put back.

A search changes everything it may, and most of what it changed does nothing. Here the settings in which the
winner differs from the reference are taken away in ever smaller groups (delta debugging, Zeller and
Hildebrandt 2002), until no single one of those left can be taken away. That is a minimum in the sense that
each one left is needed beside the others; a smaller set made of other values is not looked for.

Scores are noisy, so nothing is compared with an old score. The candidate, the winner and the reference are
evaluated in turns, in random order, in rounds. A round's difference is between the candidate and the point
that keeps a given share of the win: `keep` of the way from reference to winner; what moves all three moves
none of it. A candidate keeps the win when Student's interval of the mean difference is on the right side of
zero, and loses it when on the wrong side. It is looked at after 3, 6, 12 and 24 rounds, each at a quarter of
the level (Bonferroni). Undecided after the last is lost: a setting goes only when it is proven that it may.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from kernelwright.errors import UsageError
from kernelwright.search._optimizer import Failure
from kernelwright.space import Configuration

Evaluate = Callable[[Configuration], float | Failure]

_LOOKS = (3, 6, 12, 24)
#: Who answers the same this often, in all three places, is taken to be free of noise.
_ROUNDS_WHEN_EXACT = 1


@dataclass(frozen=True)
class Ablation:
    """One trial set: the settings kept, whether they keep the win, and the share of it with its interval.

    `reason` says why not, where it failed or is not allowed.
    """

    settings: tuple[str, ...]
    keeps: bool
    share: float | None = None
    interval: tuple[float, float] | None = None
    rounds: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Minimized:
    """The fewest settings that keep the win.

    `settings` are those kept, with their values; `dropped` those put back; `configuration` the whole point,
    and `params` as an objective gets it. `share` is the share of the win that they keep, measured again at
    the end on evaluations of their own, with its 95% interval; `win` the winner's gain over the reference, in
    the score's units, positive where it is better. `won` says whether there was a win to keep: where not,
    nothing was dropped and the reference is as good. `complete` is False where the budget ended first: then
    more could perhaps be dropped.
    """

    settings: Mapping[str, Any]
    dropped: tuple[str, ...]
    configuration: Configuration
    share: float | None
    interval: tuple[float, float] | None
    win: float
    won: bool
    complete: bool
    evaluations: int
    steps: tuple[Ablation, ...]
    params: Any = None


@dataclass
class _Bench:
    """Evaluates in rounds and counts."""

    evaluate: Evaluate
    maximise: bool
    left: float
    random: random.Random
    spent: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def round(self, points: Sequence[Configuration]) -> list[float] | Failure:
        """One score of each point, in random order, smaller is better; the first failure instead."""
        scores = [0.0] * len(points)
        order = list(range(len(points)))
        self.random.shuffle(order)
        for place in order:
            if self.left <= 0:
                return Failure("budget", "the budget of evaluations is spent")
            self.left -= 1
            self.spent += 1
            outcome = self.evaluate(points[place])
            if isinstance(outcome, Failure):
                return outcome
            if not math.isfinite(outcome):
                return Failure("invalid_score", f"the score {outcome}")
            scores[place] = -outcome if self.maximise else outcome
        return scores


def minimize_settings(
    evaluate: Evaluate,
    winner: Mapping[str, Any],
    reference: Mapping[str, Any],
    *,
    maximise: bool = False,
    keep: float = 0.95,
    level: float = 0.95,
    max_rounds: int = _LOOKS[-1],
    max_evaluations: int | None = None,
    seed: int = 0,
    allowed: Callable[[Configuration], str] | None = None,
    settled: Callable[[Configuration], Configuration] | None = None,
    on_step: Callable[[Ablation], None] | None = None,
) -> Minimized:
    """Take settings of `winner` back to `reference` as long as `keep` of the win is proven to be kept.

    Args:
        evaluate: scores a flat configuration, afresh at each call, or fails.
        keep: the share of the win to keep, above 0 and at most 1. At 1 a noisy score proves nothing.
        level: of the intervals by which it is decided.
        max_rounds: rounds a set is given at most; each evaluates the set, the winner and the reference.
        max_evaluations: an end to it all.
        allowed: says why a configuration is not allowed; an empty text if it is.
        settled: the configuration with what depends on other settings put right.
        on_step: hears of each set tried.

    Raises UsageError for numbers that make no sense, and where winner or reference has no score.
    """
    if not 0.0 < keep <= 1.0 or not 0.5 <= level < 1.0 or max_rounds < _LOOKS[0]:
        raise UsageError(
            f"keep is above 0 and at most 1, level at least 0.5 and below 1, max_rounds at least "
            f"{_LOOKS[0]}; got {keep}, {level}, {max_rounds}"
        )
    names = [name for name in winner if name not in reference or reference[name] != winner[name]]
    budget = math.inf if max_evaluations is None else float(max_evaluations)
    bench = _Bench(evaluate, maximise, budget, random.Random(seed))
    job = _Job(bench, dict(winner), dict(reference), keep, level, max_rounds, allowed, settled, on_step)
    win, won = job.win()
    if not won or not names:
        shown = {name: winner[name] for name in names}
        return Minimized(shown, (), dict(winner), None, None, win, won, True, bench.spent, tuple(job.steps))
    kept = _reduce(names, job.keeps)
    complete = not job.exhausted
    share, interval = job.confirm(kept)
    return Minimized(
        {name: winner[name] for name in kept},
        tuple(name for name in names if name not in kept),
        job.point(kept),
        share,
        interval,
        win,
        won,
        complete,
        bench.spent,
        tuple(job.steps),
    )


class _Job:
    """Decides of sets of settings whether they keep the win."""

    def __init__(
        self,
        bench: _Bench,
        winner: Configuration,
        reference: Configuration,
        keep: float,
        level: float,
        max_rounds: int,
        allowed: Callable[[Configuration], str] | None,
        settled: Callable[[Configuration], Configuration] | None,
        on_step: Callable[[Ablation], None] | None,
    ) -> None:
        self.steps: list[Ablation] = []
        self._bench = bench
        self._winner = winner
        self._reference = reference
        self._keep = keep
        self._looks = [look for look in _LOOKS if look < max_rounds] + [max_rounds]
        self._alpha = (1.0 - level) / len(self._looks)
        self._allowed = allowed
        self._settled = settled or dict
        self._on_step = on_step
        self._known: dict[tuple[str, ...], bool] = {}
        self._exact = False

    @property
    def exhausted(self) -> bool:
        """Whether the budget is spent."""
        return self._bench.left < 3

    def point(self, names: Sequence[str]) -> Configuration:
        """The reference with these settings of the winner."""
        return self._settled({**self._reference, **{name: self._winner[name] for name in names}})

    def win(self) -> tuple[float, bool]:
        """The winner's gain over the reference, and whether it is proven. Raises UsageError on a failure."""
        gains: list[float] = []
        for rounds in self._looks:
            while len(gains) < rounds:
                scores = self._bench.round([self._winner, self._reference])
                if isinstance(scores, Failure):
                    if scores.kind == "budget" and gains:
                        return statistics.fmean(gains), False
                    raise UsageError(
                        f"winner and reference both need a score: {scores.kind}, {scores.reason}"
                    )
                gains.append(scores[1] - scores[0])
            self._exact = max(gains) == min(gains)
            low, high = _interval(gains, self._alpha)
            if low > 0 or high <= 0:
                return statistics.fmean(gains), low > 0
        return statistics.fmean(gains), False

    def keeps(self, names: Sequence[str]) -> bool:
        """Whether these settings alone keep the win."""
        key = tuple(sorted(names))
        if key not in self._known:
            step = self._judge(tuple(names))
            self.steps.append(step)
            self._known[key] = step.keeps
            if self._on_step is not None:
                self._on_step(step)
        return self._known[key]

    def confirm(self, names: Sequence[str]) -> tuple[float | None, tuple[float, float] | None]:
        """The share of the win that these keep, on new rounds, with its interval."""
        if set(names) == {name for name in self._winner if self._winner[name] != self._reference.get(name)}:
            return 1.0, (1.0, 1.0)
        rounds = self._rounds(self.point(names), _ROUNDS_WHEN_EXACT if self._exact else self._looks[-2:][0])
        if isinstance(rounds, Failure):
            return None, None
        return _share(rounds, 0.05)

    def _judge(self, names: tuple[str, ...]) -> Ablation:
        point = self.point(names)
        refused = self._allowed(point) if self._allowed else ""
        if refused:
            return Ablation(names, False, reason=refused)
        rounds: list[list[float]] = []
        looks = [_ROUNDS_WHEN_EXACT] if self._exact else self._looks
        for look in looks:
            more = self._rounds(point, look - len(rounds))
            if isinstance(more, Failure):
                reason = f"{more.kind} {more.reason}".strip()
                return Ablation(names, False, rounds=len(rounds), reason=reason)
            rounds += more
            # Below zero: better than the point that keeps just enough.
            over = [c - (self._keep * w + (1.0 - self._keep) * r) for c, w, r in rounds]
            low, high = _interval(over, self._alpha) if len(over) > 1 else (over[0], over[0])
            if high <= 0 or low > 0:
                return Ablation(names, high <= 0, *_share(rounds, self._alpha), rounds=len(rounds))
        share, interval = _share(rounds, self._alpha)
        return Ablation(names, False, share, interval, len(rounds), "undecided: the noise is too large")

    def _rounds(self, point: Configuration, count: int) -> list[list[float]] | Failure:
        found = []
        for _ in range(count):
            scores = self._bench.round([point, self._winner, self._reference])
            if isinstance(scores, Failure):
                return scores
            found.append(scores)
        return found


def _reduce(names: Sequence[str], keeps: Callable[[Sequence[str]], bool]) -> list[str]:
    """Delta debugging: the names left when no single one of them can go."""
    kept = list(names)
    parts = 2
    while True:
        size = math.ceil(len(kept) / parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        for chunk in chunks:
            rest = [name for name in kept if name not in chunk]
            if rest and keeps(rest):
                kept = rest
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                return kept
            parts = min(2 * parts, len(kept))


def _interval(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """Student's two-sided interval of the mean."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return (-math.inf, math.inf)
    error = statistics.stdev(values) / math.sqrt(len(values))
    if error == 0.0:
        return (mean, mean)
    from scipy.stats import t

    reach = float(t.ppf(1.0 - alpha / 2.0, len(values) - 1)) * error
    return (mean - reach, mean + reach)


def _share(rounds: Sequence[Sequence[float]], alpha: float) -> tuple[float, tuple[float, float]]:
    """The share of the win that is kept, with its interval: each round's loss over the mean win."""
    win = statistics.fmean(reference - winner for _, winner, reference in rounds)
    if win == 0.0:
        return 0.0, (-math.inf, math.inf)
    shares = [1.0 - (candidate - winner) / win for candidate, winner, _ in rounds]
    mean = statistics.fmean(shares)
    low, high = _interval(shares, alpha) if len(shares) > 1 else (mean, mean)
    return mean, (low, high)
