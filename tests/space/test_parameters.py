"""Each kind of parameter owns its values, neighbours and encoding."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import SpaceError
from kernelwright.space import Parameter


@st.composite
def ranges(draw: st.DrawFn) -> Parameter:
    low = draw(st.integers(1, 50))
    high = low + draw(st.integers(0, 20_000))
    if draw(st.booleans()):
        step = draw(st.one_of(st.none(), st.integers(1, 7)))
        return space.range(low, high, step, log=draw(st.booleans()))
    step = draw(st.one_of(st.none(), st.floats(0.25, 4)))
    return space.range(float(low), float(high), step, log=draw(st.booleans()))


parameters = st.one_of(
    st.lists(st.integers(-100, 100), min_size=1, max_size=9, unique=True).map(space.choice),
    st.lists(st.sampled_from(["-O2", "-O3", "-Ofast", ""]), min_size=1, unique=True).map(space.choice),
    st.booleans().map(lambda on: space.flag(default=on)),
    ranges(),
)


@given(parameters, st.integers(0, 2**32))
def test_all_that_a_parameter_hands_out_is_one_of_its_values(parameter: Parameter, seed: int) -> None:
    rng = random.Random(seed)
    value = parameter.sample(rng)
    assert parameter.contains(value)
    assert parameter.contains(parameter.default)
    for other in parameter.neighbours(value):
        assert parameter.contains(other)
        assert other != value or type(other) is not type(value)
    listed = parameter.values()
    if listed is not None:
        assert len(listed) == parameter.count
        assert all(parameter.contains(one) for one in listed)


@given(parameters, st.integers(0, 2**32))
def test_encodings_are_in_the_unit_cube_and_tell_values_apart(parameter: Parameter, seed: int) -> None:
    rng = random.Random(seed)
    left, right = parameter.sample(rng), parameter.sample(rng)
    codes = [parameter.encode(left), parameter.encode(right)]
    assert all(-1e-9 <= number <= 1 + 1e-9 for code in codes for number in code)
    far = sum(abs(a - b) for a, b in zip(*codes, strict=True))
    assert far <= 1 + 1e-9
    assert (far == 0) == (left == right)


def test_neighbours_are_the_closest_first() -> None:
    assert space.choice([8, 1, 4, 2]).neighbours(2) == (1, 4, 8)
    assert space.range(0, 5).neighbours(2) == (1, 3, 0, 4, 5)


def test_a_long_range_has_few_neighbours_near_and_far() -> None:
    neighbours = space.range(0, 10**9).neighbours(1000)
    assert len(neighbours) < 64
    assert 1001 in neighbours
    assert max(neighbours) > 10**8


def test_a_range_includes_both_ends() -> None:
    assert space.range(1, 4).values() == (1, 2, 3, 4)
    assert space.range(1, 4, 2).values() == (1, 3)
    assert space.range(0.0, 1.0, 0.5).values() == (0.0, 0.5, 1.0)
    assert space.range(0.0, 1.0).values() is None
    assert space.range(0.0, 1.0).count is None


def test_log_scaling_spreads_draws_over_magnitudes() -> None:
    rng = random.Random(0)
    small = sum(space.range(1, 10**6, log=True).sample(rng) <= 1000 for _ in range(400))  # type: ignore[operator]
    assert 150 < small < 250
    assert space.choice([1, 10, 100], log=True).encode(10) == pytest.approx((0.5,))
    assert space.choice([1, 10, 1000]).encode(10) == (0.5,)


def test_one_true_and_one_point_zero_are_three_values() -> None:
    numbers = space.choice([1, 2])
    assert numbers.contains(1)
    assert not numbers.contains(True)
    assert not numbers.contains(1.0)
    assert not space.flag().contains(1)
    assert not space.range(0, 3).contains(True)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: space.choice([]), "empty list"),
        (lambda: space.choice("abc"), "not the string"),
        (lambda: space.choice([1, 1]), "1 is listed twice"),
        (lambda: space.choice([None]), "None is not a number"),  # type: ignore[list-item]
        (lambda: space.choice([1, 2], default=3), "default 3"),
        (lambda: space.choice([0, 1], log=True), "positive"),
        (lambda: space.range(3, 2), "from 3 to 2 is empty"),
        (lambda: space.range(0, 2, 0), "step must be above zero"),
        (lambda: space.range(0, 8, log=True), "positive"),
        (lambda: space.range(0, 8, 2, default=3), "default 3"),
        (lambda: space.range(0.0, float("inf")), "empty"),
    ],
)
def test_what_makes_no_sense_is_said(make: object, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        make()  # type: ignore[operator]
