"""Parameters of evaluated configurations as a few levels each, for statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABSENT = "absent"
REST = "others"


@dataclass(frozen=True)
class Column:
    """One parameter: the level's number of each configuration, and what the levels are called."""

    name: str
    codes: NDArray[np.intp]
    levels: tuple[str, ...]


def columns(configurations: Sequence[Mapping[str, Any]], *, most: int = 8, least: int = 1) -> list[Column]:
    """The parameters that differ among the configurations, each with at most `most` levels.

    A number with more values is cut into bins of about equal counts; of other values, the most frequent are
    kept. Levels seen fewer than `least` times are pooled; a parameter left with one level is left out. A
    knocked-out parameter, and one that is not there, have a level of their own.
    """
    names = dict.fromkeys(name for one in configurations for name in one)
    made = []
    for name in names:
        column = _column(name, [one.get(name) for one in configurations], most, least)
        if column is not None:
            made.append(column)
    return made


def text(value: Any) -> str:
    """A value as a level's name."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _column(name: str, values: list[Any], most: int, least: int) -> Column | None:
    counts = Counter(map(_hashable, values))
    numeric = all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in counts
        if value is not None
    )
    present = sorted(value for value in counts if value is not None) if numeric else []
    if numeric and len(present) > most - (None in counts):
        labels = _binned(values, most - (None in counts))
    else:
        kept = [value for value, count in counts.most_common(most) if count >= least]
        if len(kept) == most and len(counts) > most:
            kept.pop()
        if numeric:
            kept.sort(key=lambda value: (value is None, value if value is not None else 0))
        names = {value: text(value) for value in kept}
        labels = [names.get(_hashable(value), REST) for value in values]
        order = [*names.values(), REST]
        return _coded(name, labels, order)
    return _coded(name, labels, sorted(set(labels), key=lambda label: (label == ABSENT, _start(label))))


def _coded(name: str, labels: list[str], order: list[str]) -> Column | None:
    levels = [label for label in dict.fromkeys(order) if label in set(labels)]
    if len(levels) < 2:
        return None
    place = {label: number for number, label in enumerate(levels)}
    return Column(name, np.array([place[label] for label in labels], dtype=np.intp), tuple(levels))


def _binned(values: list[Any], most: int) -> list[str]:
    present = np.array([value for value in values if value is not None], dtype=np.float64)
    edges = np.unique(np.quantile(present, np.linspace(0.0, 1.0, max(most, 1) + 1)))
    bins = np.clip(np.searchsorted(edges, present, side="right") - 1, 0, max(len(edges) - 2, 0))
    lows = [present[bins == number].min() for number in np.unique(bins)]
    highs = [present[bins == number].max() for number in np.unique(bins)]
    named = {
        number: f"{low:.4g}…{high:.4g}" if high > low else f"{low:.4g}"
        for number, low, high in zip(np.unique(bins), lows, highs, strict=True)
    }
    found = iter(bins)
    return [ABSENT if value is None else named[next(found)] for value in values]


def _start(label: str) -> float:
    return float("inf") if label == ABSENT else float(label.partition("…")[0])


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
