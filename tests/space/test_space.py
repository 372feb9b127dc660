"""What a space hands out is inside it; what it refuses, it names."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import time

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import Constraint
from kernelwright.space import key
from kernelwright.space import Space

EXPRESSIONS = [
    "a * b <= 32",
    "a + c != 4",
    "b % 2 == 0 or flag",
    "min(a, b) < 6",
    "not flag if c > 2 else a > 0",
]


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    low = draw(st.integers(0, 3))
    return Space(
        {
            "a": space.choice(draw(st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True))),
            "b": space.range(low, low + draw(st.integers(0, 9))),
            "c": space.choice([0, 1, 2, 3, 4]),
            "flag": space.flag(),
            "free": space.choice(["-O2", "-O3"]),
        },
        draw(st.lists(st.sampled_from(EXPRESSIONS), max_size=3, unique=True)),
    )


def try_spaces() -> st.SearchStrategy[Space]:
    """Spaces that are not empty: a contradiction is an error, tested apart."""

    @st.composite
    def build(draw: st.DrawFn) -> Space:
        from hypothesis import reject

        try:
            return draw(spaces())
        except SpaceError:
            reject()

    return build()


@settings(max_examples=60, deadline=None)
@given(try_spaces(), st.integers(0, 2**32))
def test_default_samples_and_neighbours_are_inside(tested: Space, seed: int) -> None:
    rng = random.Random(seed)
    assert tested.contains(tested.default)
    drawn = tested.sample(rng)
    assert tested.contains(drawn)
    for neighbour in tested.neighbours(drawn, rng):
        assert tested.contains(neighbour)
        assert neighbour != drawn


@settings(max_examples=60, deadline=None)
@given(try_spaces())
def test_count_and_listing_are_exact(tested: Space) -> None:
    domains = [parameter.values() or () for parameter in tested.parameters.values()]
    grid = [dict(zip(tested.parameters, values, strict=True)) for values in itertools.product(*domains)]
    valid = {key(one) for one in grid if not tested.violated(one)}
    listed = [key(one) for one in tested.configurations()]
    assert tested.count() == len(valid) == len(listed)
    assert set(listed) == valid


@settings(max_examples=30, deadline=None)
@given(try_spaces(), st.integers(0, 2**32))
def test_the_same_seed_draws_the_same(tested: Space, seed: int) -> None:
    first, second = random.Random(seed), random.Random(seed)
    assert tested.sample(first) == tested.sample(second)
    assert tested.neighbours(tested.default, first) == tested.neighbours(tested.default, second)


@settings(max_examples=30, deadline=None)
@given(try_spaces(), st.integers(0, 2**32))
def test_a_configuration_survives_json(tested: Space, seed: int) -> None:
    drawn = tested.sample(random.Random(seed))
    back = json.loads(json.dumps(drawn))
    assert tested.contains(back)
    assert key(back) == key(dict(reversed(drawn.items())))


def test_sampling_is_uniform_over_what_is_valid() -> None:
    tested = Space({"a": space.range(0, 3), "b": space.range(0, 3)}, ["a < b"])
    rng = random.Random(0)
    seen: dict[str, int] = {}
    for _ in range(3000):
        name = key(tested.sample(rng))
        seen[name] = seen.get(name, 0) + 1
    assert len(seen) == 6
    assert min(seen.values()) > 400


@pytest.mark.serial
def test_a_huge_space_is_never_listed() -> None:
    tested = Space(
        {f"p{index}": space.range(0, 999) for index in range(20)},
        ["p0 + p1 + p2 + p3 <= 20", "p4 * p5 <= 36"],
    )
    rng = random.Random(0)
    began = time.monotonic()
    drawn = [tested.sample(rng) for _ in range(20)]
    assert time.monotonic() - began < 5
    assert all(tested.contains(one) for one in drawn)
    assert len({key(one) for one in drawn}) == 20
    assert tested.count() is None
    with pytest.raises(SpaceError, match="too many"):
        next(tested.configurations())


def test_counting_needs_no_listing_where_parameters_are_free() -> None:
    tested = Space({f"p{index}": space.range(0, 999) for index in range(20)}, ["p0 == p1"])
    assert tested.count() == 1000**19
    tested = Space({f"p{index}": space.range(0, 99) for index in range(20)}, ["p0 == p1"])
    assert tested.count() == 100**19


def test_coupled_parameters_still_have_neighbours() -> None:
    tested = Space({"a": space.range(0, 9), "b": space.range(0, 9)}, ["a == b"])
    found = tested.neighbours({"a": 3, "b": 3}, random.Random(1))
    assert found
    assert all(one["a"] == one["b"] != 3 for one in found)


def test_a_callable_sees_the_parameters_that_it_names() -> None:
    def fits(tile: int, stages: int) -> bool:
        return tile * stages <= 8

    tested = Space({"tile": space.choice([2, 4, 8]), "stages": space.range(1, 4)}, [fits])
    assert tested.count() == 4 + 2 + 1
    whole = Constraint(lambda configuration: sum(configuration.values()) < 5, name="small in all")
    tested = Space({"tile": space.choice([2, 4]), "stages": space.range(1, 4)}, [whole])
    assert tested.count() == 2
    with pytest.raises(SpaceError, match="small in all"):
        tested.validate({"tile": 4, "stages": 4})


def test_unstated_defaults_give_way_to_a_constraint() -> None:
    assert Space({"a": space.range(0, 5)}, ["a > 2"]).default == {"a": 3}
    with pytest.raises(SpaceError, match="default configuration violates the constraint 'a > 2'"):
        Space({"a": space.range(0, 5, default=1)}, ["a > 2"])


@pytest.mark.parametrize(
    ("parameters", "constraints", "named"),
    [
        ({}, [], "at least one parameter"),
        ({"a": space.range(0, 5)}, ["a >= 0", "a > 5"], "no configuration meets the constraint 'a > 5'"),
        (
            {"a": space.range(0, 5), "b": space.range(0, 5)},
            ["a >= 0", "a > b", "b > a"],
            "'a > b' and 'b > a' exclude each other",
        ),
        ({"a": space.range(0, 10**9)}, ["a < 0"], "'a < 0' was violated most often"),
    ],
)
def test_an_empty_space_names_the_constraints(
    parameters: dict[str, space.Parameter], constraints: list[str], named: str
) -> None:
    with pytest.raises(SpaceError, match=named):
        Space(parameters, constraints)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a >", "not an expression"),
        ("__import__('os')", "calls more than"),
        ("(a + 1).real > 1", "an attribute of more than a name"),
        ("[a for a in (1, 2)]", "uses ListComp"),
        ("a % (a - a) == 0", "fails on"),
        ("a < 9**9**9", "power above 64"),
        ("a < 9**999999999", "power above 64"),
    ],
)
def test_an_expression_is_arithmetic_only(text: str, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        Space({"a": space.range(1, 4)}, [text])


def test_validate_names_the_parameter_and_what_is_nearest() -> None:
    tested = Space({"unroll": space.choice([1, 2, 4]), "flag": space.flag()}, ["unroll < 4 or flag"])
    with pytest.raises(UnknownNameError, match="unknown parameter 'unrol'; did you mean 'unroll'"):
        tested.validate({"unrol": 1})
    with pytest.raises(SpaceError, match="parameter 'flag' is missing; its default is False"):
        tested.validate({"unroll": 1})
    with pytest.raises(SpaceError, match="'unroll' cannot be 3; the nearest valid value is 2"):
        tested.validate({"unroll": 3, "flag": False})
    with pytest.raises(SpaceError, match="'unroll < 4 or flag' is violated by"):
        tested.validate({"unroll": 4, "flag": False})
    with pytest.raises(UnknownNameError, match="parameter of the constraint 'unrol < 4'"):
        Space({"unroll": space.choice([1, 2])}, ["unrol < 4"])
    assert tested.validate({"flag": True, "unroll": 4}) == {"unroll": 4, "flag": True}


def test_encoding_and_distance() -> None:
    tested = Space({"a": space.range(0, 10), "kind": space.choice(["x", "y"])})
    left, right = {"a": 0, "kind": "x"}, {"a": 5, "kind": "y"}
    assert tested.encode(left) == (0.0, 0.5, 0.0)
    assert tested.distance(left, left) == 0
    assert tested.distance(left, right) == pytest.approx(0.5 + 1.0 + 0.5 * 2)


def test_a_space_travels_to_another_process() -> None:
    made = Space({"a": space.choice([1, 2, 4]), "b": space.choice([1, 2, 4])}, ["a * b <= 4"])
    copy = pickle.loads(pickle.dumps(made))
    assert list(copy.configurations()) == list(made.configurations())
    assert not copy.contains({"a": 4, "b": 4})
