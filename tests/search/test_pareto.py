"""Several objectives: dominance, fronts, crowding, hypervolume."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright.errors import UsageError
from kernelwright.search._pareto import crowding
from kernelwright.search._pareto import dominates
from kernelwright.search._pareto import front
from kernelwright.search._pareto import fronts
from kernelwright.search._pareto import hypervolume

Points = list[tuple[float, ...]]


def clouds(width: int, size: int = 12) -> st.SearchStrategy[Points]:
    return st.lists(st.tuples(*[st.integers(0, 5).map(float)] * width), max_size=size)


def grid_volume(points: Points, reference: tuple[float, ...]) -> float:
    """On whole numbers the volume is a count of unit cells."""
    cells = itertools.product(*(range(int(one)) for one in reference))
    return float(
        sum(any(all(p <= c for p, c in zip(point, cell, strict=True)) for point in points) for cell in cells)
    )


def test_dominance_needs_one_better_and_none_worse() -> None:
    assert dominates((1, 2), (1, 3))
    assert not dominates((1, 2), (1, 2))
    assert not dominates((0, 3), (1, 2))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4).flatmap(clouds))
def test_fronts_are_those_of_the_definition(points: Points) -> None:
    left = list(range(len(points)))
    expected = []
    while left:
        best = [i for i in left if not any(dominates(points[j], points[i]) for j in left)]
        expected.append(best)
        left = [i for i in left if i not in best]
    assert fronts(points) == expected
    assert front(points) == (expected[0] if expected else [])


def test_crowding_is_the_distance_between_the_neighbours_and_endless_at_the_ends() -> None:
    points = [(0.0, 10.0), (1.0, 6.0), (4.0, 4.0), (10.0, 0.0)]
    assert crowding(points) == pytest.approx([math.inf, 0.4 + 0.6, 0.9 + 0.6, math.inf])
    assert crowding([(0.0, 2.0), (1.0, 1.0), (1.0, 1.0), (2.0, 0.0)])[2] == 0
    assert crowding([]) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5).flatmap(lambda width: clouds(width, 8)))
def test_the_hypervolume_is_exact_in_any_number_of_objectives(points: Points) -> None:
    width = len(points[0]) if points else 2
    assert hypervolume(points, (5.0,) * width) == pytest.approx(grid_volume(points, (5.0,) * width))


@pytest.mark.parametrize("width", [2, 3, 4])
def test_the_hypervolume_agrees_with_pymoo(width: int) -> None:
    from pymoo.indicators.hv import HV

    rng = random.Random(width)
    points = [tuple(rng.random() for _ in range(width)) for _ in range(40)]
    expected = HV(ref_point=np.ones(width))(np.array(points))
    assert hypervolume(points, (1.0,) * width) == pytest.approx(float(expected))


def test_points_beyond_the_reference_add_nothing_and_other_lengths_are_refused() -> None:
    assert hypervolume([(2.0, 0.0), (0.0, 1.0)], (1.0, 1.0)) == 0
    assert hypervolume([], (1.0, 1.0)) == 0
    with pytest.raises(UsageError, match="2 objectives, a point 3"):
        hypervolume([(0.0, 0.0, 0.0)], (1.0, 1.0))
