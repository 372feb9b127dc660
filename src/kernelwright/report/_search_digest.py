"""What the plots of a search show, whoever draws them: series of points, and where values lie on axes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.errors import NoScoreError
from kernelwright.errors import UsageError
from kernelwright.report._format import configuration
from kernelwright.report._format import plain

if TYPE_CHECKING:
    from kernelwright.search import Evaluation
    from kernelwright.search import SearchResult

#: An axis with more distinct numbers than this is drawn to scale, with fewer value by value.
_DISTINCT = 12
#: Lines of parallel coordinates: the best ones first, as shares of all.
TIERS = (0.1, 0.5, 1.0)
_MOST_LINES = 1000
#: More parameters than this cannot be told apart: those that mattered most are drawn.
_MOST_AXES = 12
#: Settings that are named beside a point.
_SETTINGS = 12


@dataclass(frozen=True)
class Convergence:
    """Numbers, values and best values of scored candidates; numbers of failed ones; the baseline's value."""

    numbers: list[int]
    values: list[float]
    best: list[float]
    texts: list[str]
    failed: list[int]
    failures: list[str]
    baseline: float | None
    title: str
    log: bool


@dataclass(frozen=True)
class Axis:
    """A vertical axis of parallel coordinates: its name, ticks from 0 to 1, each line's place on it."""

    name: str
    ticks: list[tuple[float, str]]
    places: list[float]


@dataclass(frozen=True)
class Parallel:
    """The axes, the last one the score, and each line's tier: 0 for the best."""

    axes: list[Axis]
    tiers: list[int]
    texts: list[str]
    left_out: int


@dataclass(frozen=True)
class Pareto:
    """Values of all candidates in two objectives, and those of the front, in order."""

    points: list[tuple[float, float]]
    texts: list[str]
    front: list[tuple[float, float]]
    front_texts: list[str]
    titles: tuple[str, str]
    directions: tuple[str, str]


def convergence(result: SearchResult, objective: int = 0) -> Convergence:
    """Raises NoScoreError when nothing has a score."""
    steps = result.progress(objective)
    if not steps:
        raise NoScoreError("no candidate has a score: there is nothing to draw")
    values = [step.value for step in steps]
    base: float | None = None
    if result.normalised:
        base = 1.0
    elif result.baselines:
        base = statistics.median(one.scores[objective] for one in result.baselines if one.scores)
    shown = values if base is None else [*values, base]
    failed = [one for one in result.failed if not one.baseline]
    return Convergence(
        [step.evaluation.number for step in steps],
        values,
        [step.best for step in steps],
        [text(step.evaluation, (step.value,)) for step in steps],
        [one.number for one in failed],
        [f"#{one.number} {one.failure.kind if one.failure else ''}" for one in failed],
        base,
        title(result, objective),
        min(shown) > 0 and max(shown) > 20 * min(shown),
    )


def parallel(result: SearchResult, objective: int = 0) -> Parallel:
    """Raises NoScoreError when nothing has a score, or no parameter differs."""
    ranked = sorted(result.ranked, key=lambda one: result.costs(one)[objective])
    if not ranked:
        raise NoScoreError("no candidate has a score: there is nothing to draw")
    shown = ranked[:_MOST_LINES]
    names = dict.fromkeys(name for one in shown for name in one.configuration)
    axes = []
    for name in names:
        values = [one.configuration.get(name) for one in shown]
        if len({plain(value) for value in values}) > 1:
            axes.append(_axis(name, values))
    if not axes:
        raise NoScoreError("all candidates with a score are the same: there is nothing to draw")
    axes = _foremost(result, axes, objective)
    axes.append(_axis(title(result, objective), [result.values(one)[objective] for one in shown]))
    tiers = []
    for place in range(len(shown)):
        share = (place + 1) / len(shown)
        tiers.append(0 if place == 0 else next(n for n, most in enumerate(TIERS) if share <= most + 1e-12))
    texts = [text(one, result.values(one)) for one in shown]
    return Parallel(axes, tiers, texts, len(ranked) - len(shown))


def pareto(result: SearchResult, x: int = 0, y: int = 1) -> Pareto:
    """Raises UsageError for one objective, or objectives that are not there; NoScoreError."""
    if result.num_objectives < 2:
        raise UsageError("a Pareto front needs two objectives or more; this search has one")
    for objective in (x, y):
        if not 0 <= objective < result.num_objectives:
            raise UsageError(f"objective {objective} is not there; they count from 0")
    if not result.ranked:
        raise NoScoreError("no candidate has a score: there is nothing to draw")
    front = result.front

    def place(one: Evaluation) -> tuple[float, float]:
        return (result.values(one)[x], result.values(one)[y])

    ordered = sorted(front, key=lambda one: (place(one), one.number))
    return Pareto(
        [place(one) for one in result.ranked],
        [text(one, result.values(one)) for one in result.ranked],
        [place(one) for one in ordered],
        [text(one, result.values(one)) for one in ordered],
        (title(result, x), title(result, y)),
        (result.directions[x], result.directions[y]),
    )


def text(evaluation: Evaluation, values: Sequence[float]) -> str:
    """What is said of a point: number, values, configuration."""
    kept = [(name, value) for name, value in evaluation.configuration.items() if value is not None]
    scores = ", ".join(f"{value:.6g}" for value in values)
    said = configuration(dict(kept[:_SETTINGS])) if kept else "everything left out"
    left = len(kept) - _SETTINGS
    return f"#{evaluation.number}: {scores}<br>{said}{f' … and {left} more' if left > 0 else ''}"


def title(result: SearchResult, objective: int) -> str:
    """What an axis of an objective is called."""
    name = "score" if result.num_objectives == 1 else f"score {objective + 1}"
    over = ", divided by the baseline's" if result.normalised else ""
    return f"{name}{over} ({result.directions[objective]})"


def _foremost(result: SearchResult, axes: list[Axis], objective: int) -> list[Axis]:
    """The axes of the parameters that mattered most, where there are too many; in the order given."""
    if len(axes) <= _MOST_AXES:
        return axes
    try:
        ranked = [one.parameter for one in result.importance(objective=objective).parameters]
    except NoScoreError:  # too few candidates to tell
        ranked = []
    names = [name for name in ranked if any(axis.name == name for axis in axes)][:_MOST_AXES]
    chosen = [axis for axis in axes if axis.name in names]
    return chosen or axes[:_MOST_AXES]


def _axis(name: str, values: Sequence[Any]) -> Axis:
    present = [value for value in values if value is not None]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present)
    distinct = sorted(set(present)) if numeric else sorted({plain(value) for value in present})
    absent = len(present) < len(values)
    if numeric and len(distinct) > _DISTINCT:
        return _scaled(name, values, float(distinct[0]), float(distinct[-1]), absent)
    labels = [plain(value) for value in distinct] if numeric else [str(value) for value in distinct]
    labels = ["left out", *labels] if absent else labels
    last = max(len(labels) - 1, 1)
    places = {label: number / last for number, label in enumerate(labels)}
    return Axis(
        name,
        [(place, label) for label, place in places.items()],
        [places["left out" if value is None else plain(value)] for value in values],
    )


def _scaled(name: str, values: Sequence[Any], low: float, high: float, absent: bool) -> Axis:
    """Numbers to scale, the lowest tenth kept free for what is left out."""
    start = 0.1 if absent else 0.0
    log = low > 0 and high > 100 * low
    bottom, top = (math.log(low), math.log(high)) if log else (low, high)

    def place(value: float) -> float:
        return start + (1.0 - start) * ((math.log(value) if log else value) - bottom) / (top - bottom)

    steps = [bottom + (top - bottom) * part / 4 for part in range(5)]
    marks = [math.exp(step) if log else step for step in steps]
    ticks = [(place(min(max(mark, low), high)), f"{mark:.4g}") for mark in marks]
    if absent:
        ticks.insert(0, (0.0, "left out"))
    return Axis(name, ticks, [0.0 if value is None else place(float(value)) for value in values])
