"""Several objectives, all minimised: dominance, fronts, crowding, hypervolume."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from kernelwright.errors import UsageError

#: One score an objective.
Scores: TypeAlias = Sequence[float]


def dominates(left: Scores, right: Scores) -> bool:
    """Whether `left` is no worse in any objective and better in one."""
    better = False
    for one, other in zip(left, right, strict=True):
        if one > other:
            return False
        better = better or one < other
    return better


def front(points: Sequence[Scores]) -> list[int]:
    """The places of the points that no other one dominates, in order. Of equal points, all are there.

    Sorts by the first objective, then sweeps: O(n log n) for two objectives, O(n · front) beyond.
    """
    order = sorted(range(len(points)), key=lambda index: tuple(points[index]))
    kept: list[int] = []
    for index in order:
        # Whoever dominates a point comes before it in this order.
        candidates = kept[-1:] if len(points[index]) <= 2 else kept
        if not any(dominates(points[one], points[index]) for one in candidates):
            kept.append(index)
    return sorted(kept)


def fronts(points: Sequence[Scores]) -> list[list[int]]:
    """All points by rank: the front, then what is the front without it, and so on.

    Fast non-dominated sort as improved by efficient search (Zhang et al., 2015): points in lexicographic
    order go to the first front that holds none that dominates them, found by bisection.
    """
    ranked: list[list[int]] = []
    for index in sorted(range(len(points)), key=lambda place: tuple(points[place])):
        low, high = 0, len(ranked)
        while low < high:
            middle = (low + high) // 2
            if any(dominates(points[one], points[index]) for one in reversed(ranked[middle])):
                low = middle + 1
            else:
                high = middle
        if low == len(ranked):
            ranked.append([])
        ranked[low].append(index)
    return [sorted(rank) for rank in ranked]


def crowding(points: Sequence[Scores]) -> list[float]:
    """How far each point's neighbours on its front are apart, summed over the objectives (Deb et al., 2002).

    Each objective is scaled by its range; the ends get infinity. Equal points get 0, but for the first.
    """
    distances = [0.0] * len(points)
    first: dict[tuple[float, ...], int] = {}
    for index, point in enumerate(points):
        first.setdefault(tuple(point), index)
    unique = list(first.values())
    for objective in range(len(points[0]) if points else 0):
        order = sorted(unique, key=lambda index: points[index][objective])
        spread = points[order[-1]][objective] - points[order[0]][objective]
        distances[order[0]] = distances[order[-1]] = math.inf
        if spread <= 0:
            continue
        for before, index, after in zip(order, order[1:], order[2:], strict=False):
            distances[index] += (points[after][objective] - points[before][objective]) / spread
    return distances


def hypervolume(points: Sequence[Scores], reference: Scores) -> float:
    """The volume that the points dominate, up to the reference point. Exact, for any number of objectives.

    Points that are not better than the reference in all objectives add nothing. Two objectives: a sweep,
    O(n log n). Three: a sweep over a staircase, O(n²) at worst. More: WFG (While, Bradstreet and Barone,
    2012), exponential at worst.

    Raises UsageError for points of another length than the reference.
    """
    for point in points:
        if len(point) != len(reference):
            raise UsageError(
                f"the reference point has {len(reference)} objectives, a point {len(point)}: {tuple(point)}"
            )
    inside = [tuple(point) for point in points if all(map(_below, point, reference))]
    best = sorted({inside[index] for index in front(inside)})
    if not best:
        return 0.0
    if len(reference) == 1:
        return reference[0] - best[0][0]
    if len(reference) == 2:
        return _area(best, reference)
    if len(reference) == 3:
        return _volume(best, reference)
    return _wfg(best, tuple(reference))


def _below(one: float, other: float) -> bool:
    return one < other


def _area(points: Sequence[Scores], reference: Scores) -> float:
    """Of a front in ascending order of the first objective, and so descending of the second."""
    total, ceiling = 0.0, reference[1]
    for point in points:
        total += (reference[0] - point[0]) * (ceiling - point[1])
        ceiling = point[1]
    return total


def _volume(points: Sequence[Scores], reference: Scores) -> float:
    """Of a front in three objectives: slices along the third, each a staircase in the other two."""
    total, area = 0.0, 0.0
    xs: list[float] = []
    ys: list[float] = []
    ordered = sorted(points, key=lambda point: point[2])
    for index, (x, y, z) in enumerate(ordered):
        place = bisect_left(xs, x)
        if not (place and ys[place - 1] <= y) and not (place < len(xs) and xs[place] == x and ys[place] <= y):
            end = place
            while end < len(xs) and ys[end] >= y:
                end += 1
            ceiling = ys[place - 1] if place else reference[1]
            # What the new step adds, up to each step that it covers, and then up to the next one.
            left = x
            for step in range(place, end):
                area += (xs[step] - left) * (ceiling - y)
                left, ceiling = xs[step], ys[step]
            right = xs[end] if end < len(xs) else reference[0]
            area += (right - left) * (ceiling - y)
            xs[place:end], ys[place:end] = [x], [y]
        top = ordered[index + 1][2] if index + 1 < len(ordered) else reference[2]
        total += area * (top - z)
    return total


def _wfg(points: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    if len(reference) == 3:
        return _volume(points, reference)
    total = 0.0
    ordered = sorted(points, key=lambda point: point[-1], reverse=True)
    for index, point in enumerate(ordered):
        # The last objective of all later points is no worse than this one's: a slice of one dimension less.
        rest = [tuple(map(max, other[:-1], point[:-1])) for other in ordered[index + 1 :]]
        limited = sorted({rest[one] for one in front(rest)})
        inner = math.prod(limit - value for limit, value in zip(reference[:-1], point[:-1], strict=True))
        total += (reference[-1] - point[-1]) * (inner - _wfg(limited, reference[:-1]))
    return total
