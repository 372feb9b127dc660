"""The encoding, the designed start and the Gaussian process that the default optimiser stands on."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from kernelwright import space
from kernelwright.search._design import designed
from kernelwright.search._encoding import Encoding
from kernelwright.search._gp import PairwiseProcess
from kernelwright.space import Space


def mixed() -> Space:
    return Space(
        {
            "tile": space.choice([1, 2, 4, 8]),
            "kind": space.choice(["a", "b", "c"]),
            "on": space.flag(),
            "one": space.choice([7]),
            "rate": space.range(0.0, 2.0),
            "extra": space.literal(5, knockout_prob=0.5),
            "order": space.permutation(["i", "j", "k"]),
        }
    )


def drawn(count: int, of: Space) -> list[space.Configuration]:
    rng = random.Random(1)
    return [of.sample(rng) for _ in range(count)]


def test_distances_are_on_the_logarithm_for_positive_numbers() -> None:
    encoding = Encoding(Space({"tile": space.choice([1, 2, 4, 8])}))
    points = encoding.points([{"tile": value} for value in (1, 2, 8)])
    far = encoding.distances(0, points, points)
    assert far == pytest.approx(np.array([[0, 0.5 + 1 / 3, 1.5], [5 / 6, 0, 0.5 + 2 / 3], [1.5, 7 / 6, 0]]))


def test_every_kind_of_parameter_has_a_distance_of_zero_to_itself_only() -> None:
    encoding = Encoding(mixed())
    assert "one" not in encoding.names
    configurations = drawn(40, mixed())
    points = encoding.points(configurations)
    for column, name in enumerate(encoding.names):
        far = encoding.distances(column, points, points)
        values = [configuration[name] for configuration in configurations]
        same = np.array([[one == other for other in values] for one in values])
        assert ((far == 0) == same).all(), name
        assert far.max() <= 1.5 + 1e-6, name
        assert far == pytest.approx(far.T)


def test_equal_points_and_only_those_have_one_identity() -> None:
    configurations = drawn(60, mixed())
    encoding = Encoding(mixed())
    names = encoding.points(configurations).identities()
    assert len(set(names)) == len({space.key(one) for one in configurations})
    assert encoding.points(configurations[:5]).identities() == names[:5]


def test_true_and_one_are_two_values() -> None:
    encoding = Encoding(Space({"x": space.choice([1, True, 1.0])}))
    assert len(set(encoding.points([{"x": 1}, {"x": True}, {"x": 1.0}]).identities())) == 3


def test_the_design_is_central_then_ever_farther() -> None:
    grid = Space({"a": space.range(0, 10), "b": space.range(0, 10)})
    pool = list(grid.configurations())
    encoding = Encoding(grid)
    points = encoding.points(pool)
    rows = designed(encoding, points, 8)
    assert pool[rows[0]] == {"a": 5, "b": 5}
    far = encoding.total(points, points)
    for place in range(1, len(rows)):
        gaps = far[rows[:place]].min(0)
        assert gaps[rows[place]] == gaps.max()


def test_the_design_keeps_away_from_what_is_known_and_ends_with_the_pool() -> None:
    line = Space({"a": space.range(0, 4)})
    pool = list(line.configurations())
    encoding = Encoding(line)
    points = encoding.points(pool)
    rows = designed(encoding, points, 10, encoding.points([{"a": 2}]))
    assert sorted(rows) == [0, 1, 3, 4]
    assert designed(encoding, points, 0) == []


def model(count: int = 60) -> tuple[PairwiseProcess, list[space.Configuration]]:
    configurations = drawn(count, mixed())
    encoding = Encoding(mixed())
    return PairwiseProcess(encoding, encoding.points(configurations)), configurations


def textbook(
    process: PairwiseProcess, rows: list[int], observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance as in Rasmussen and Williams (2006), algorithm 2.1, in double precision."""
    points, encoding = process.pool, process.encoding
    near = [
        np.exp(-process.weights[j] * encoding.distances(j, points, points).astype(float))
        for j in range(encoding.width)
    ]
    pairs = [near[i] * near[j] for i in range(len(near)) for j in range(i)]
    kernel = process.additive * np.mean(near, 0) + (1 - process.additive) * np.mean(pairs, 0)
    inverse = np.linalg.inv(kernel[np.ix_(rows, rows)] + process.nugget * np.eye(len(rows)))
    cross = kernel[rows]
    return cross.T @ inverse @ observed, 1 - np.einsum("ij,ik,kj->j", cross, inverse, cross)


def test_conditioning_row_by_row_is_the_textbook_posterior() -> None:
    process, _ = model()
    rows = [3, 17, 40, 8, 25]
    for row in rows:
        process.condition(row)
    observed = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    mean, variance = textbook(process, rows, observed)
    assert process.mean(observed) == pytest.approx(mean, abs=2e-3)
    assert process.variance == pytest.approx(variance, abs=2e-3)


def test_a_rebuild_and_a_pool_that_grew_change_nothing() -> None:
    process, configurations = model()
    encoding = process.encoding
    grown = PairwiseProcess(encoding, encoding.points(configurations[:30]))
    observed = np.array([1.0, -2.0, 0.5, 0.0])
    for place, row in enumerate([3, 17, 28, 8]):
        process.condition(row)
        grown.condition(row)
        if place == 1:
            grown.extend(encoding.points(configurations[30:]))
    assert grown.mean(observed) == pytest.approx(process.mean(observed), abs=2e-3)
    before = process.mean(observed)
    process.rebuild()
    assert process.mean(observed) == pytest.approx(before, abs=2e-3)
    assert process.variance == pytest.approx(grown.variance, abs=2e-3)


def test_what_is_expected_at_open_rows_is_the_mean_given_the_others() -> None:
    process, configurations = model()
    less = PairwiseProcess(process.encoding, process.encoding.points(configurations))
    for row in [3, 17, 40, 8]:
        process.condition(row)
    for row in [3, 40]:
        less.condition(row)
    expected = process.expected([1, 3], np.array([1.0, 0.0, -2.0, 0.0]))
    assert expected == pytest.approx(less.mean(np.array([1.0, -2.0]))[[17, 8]], abs=2e-3)
    assert process.expected([0, 1, 2, 3], np.zeros(4)).tolist() == [0, 0, 0, 0]


def test_the_fit_finds_out_which_parameter_matters() -> None:
    grid = Space({"a": space.range(0, 15), "b": space.range(0, 15), "c": space.range(0, 15)})
    encoding = Encoding(grid)
    configurations = drawn(60, grid)
    process = PairwiseProcess(encoding, encoding.points(configurations))
    for row in range(60):
        process.condition(row)
    observed = np.array([math.sin(float(one["b"])) for one in configurations])  # type: ignore[arg-type]
    for _ in range(4):
        process.fit((observed - observed.mean()) / observed.std())
    a, b, c = process.weights
    assert b >= 4 * max(a, c)
