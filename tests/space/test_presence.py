"""Knocked out or not active: an absent parameter is None, and no configuration comes twice."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import key
from kernelwright.space import Space
from kernelwright.space import when


def scheduled() -> Space:
    return Space(
        {
            "schedule": space.choice(["static", "dynamic", "guided"]),
            "chunk": when("schedule == 'dynamic'", space.choice([1, 2, 4, 8])),
            "steal": when("chunk > 2", space.flag()),
            "threads": space.range(1, 4),
        },
        ["chunk * threads <= 16"],
    )


@st.composite
def conditional_spaces(draw: st.DrawFn) -> Space:
    """Chains and forks of conditions, with knock-outs among them, and constraints across."""
    parameters: dict[str, space.Parameter] = {"p0": space.range(0, draw(st.integers(1, 3)))}
    for index in range(1, draw(st.integers(2, 5))):
        prob = draw(st.sampled_from([0.0, 0.5]))
        made = space.choice(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)))
        if prob:
            made = space.Knockout(made, prob)
        parent = draw(st.integers(0, index))
        if parent < index:
            made = when(f"p{parent} >= {draw(st.integers(0, 2))}", made)
        parameters[f"p{index}"] = made
    texts = [f"p{a} + p{b} != {draw(st.integers(0, 6))}" for a, b in itertools.pairwise(range(index))]
    return Space(parameters, draw(st.lists(st.sampled_from(texts or ["p0 >= 0"]), max_size=2, unique=True)))


def made() -> st.SearchStrategy[Space]:
    @st.composite
    def build(draw: st.DrawFn) -> Space:
        from hypothesis import reject

        try:
            return draw(conditional_spaces())
        except SpaceError:
            reject()

    return build()


@settings(max_examples=60, deadline=None)
@given(made())
def test_listing_is_what_brute_force_finds_without_duplicates(tested: Space) -> None:
    domains = [
        [*(one for one in parameter.values() or () if one is not None), None]
        for parameter in tested.parameters.values()
    ]
    grid = [dict(zip(tested.parameters, values, strict=True)) for values in itertools.product(*domains)]
    inside = [one for one in grid if tested.contains(one)]
    listed = list(tested.configurations())
    assert sorted(map(key, listed)) == sorted(map(key, inside))
    assert len(set(map(key, listed))) == len(listed) == tested.count()


@settings(max_examples=60, deadline=None)
@given(made(), st.integers(0, 2**32))
def test_default_samples_and_neighbours_are_inside(tested: Space, seed: int) -> None:
    rng = random.Random(seed)
    assert tested.contains(tested.default)
    drawn = tested.sample(rng)
    assert tested.contains(drawn)
    near = tested.neighbours(drawn, rng)
    assert all(tested.contains(one) and one != drawn for one in near)
    assert len(set(map(key, near))) == len(near)
    one = tested.neighbour(drawn, rng)
    assert (one is None) == (not near)
    assert one is None or tested.contains(one)
    assert len(tested.encode(drawn)) == len(tested.encode(tested.default))


def test_what_is_not_active_has_one_value() -> None:
    tested = scheduled()
    assert tested.count() == 2 * 4 + (1 * 4 + 1 * 4 + 2 * 4 + 2 * 2)
    assert tested.default == {"schedule": "static", "chunk": None, "steal": None, "threads": 1}
    with pytest.raises(SpaceError, match="chunk is there only when schedule == 'dynamic', but it is 2"):
        tested.validate({"schedule": "static", "chunk": 2, "steal": None, "threads": 1})
    with pytest.raises(SpaceError, match=r"chunk is there only when .* but it is missing"):
        tested.validate({"schedule": "dynamic", "chunk": None, "steal": None, "threads": 1})


def test_a_condition_on_an_absent_parameter_does_not_hold() -> None:
    tested = Space({"a": space.flag(), "b": when("a", space.flag()), "c": when("not b", space.flag())})
    assert {(one["a"], one["b"], one["c"]) for one in tested.configurations()} == {
        (False, None, None),
        (True, True, None),
        (True, False, True),
        (True, False, False),
    }


def test_a_change_wakes_and_puts_to_sleep_what_depends_on_it() -> None:
    tested = scheduled()
    here = {"schedule": "dynamic", "chunk": 4, "steal": True, "threads": 2}
    near = [key(one) for one in tested.neighbours(here, random.Random(0))]
    assert key({"schedule": "static", "chunk": None, "steal": None, "threads": 2}) in near
    assert key({"schedule": "dynamic", "chunk": 2, "steal": None, "threads": 2}) in near
    back = tested.neighbours(
        {"schedule": "static", "chunk": None, "steal": None, "threads": 2}, random.Random(0)
    )
    assert any(one["schedule"] == "dynamic" and one["chunk"] is not None for one in back)


def test_constraints_are_not_asked_about_what_is_absent() -> None:
    tested = Space({"a": space.literal(9, knockout_prob=0.5), "b": space.range(0, 9)}, ["a + b < 10"])
    assert tested.count() == 1 + 10
    seen = []

    def all_of_it(configuration: dict[str, object]) -> bool:
        seen.append(configuration["a"])
        return True

    Space({"a": space.literal(9, knockout_prob=0.5)}, [all_of_it]).count()
    assert None in seen


def test_a_knock_out_comes_as_often_as_said() -> None:
    for constraints in ([], ["flag or level < 3"]):
        tested = Space(
            {
                "fast": space.literal("-ffast-math", knockout_prob=0.25),
                "level": space.choice([1, 2, 3], knockout_prob=0.25),
                "flag": space.flag(),
            },
            constraints,
        )
        rng = random.Random(0)
        drawn = [tested.sample(rng) for _ in range(2000)]
        assert 0.2 < sum(one["fast"] is None for one in drawn) / 2000 < 0.3
    assert tested.default["fast"] == "-ffast-math"
    near = tested.neighbours(tested.default, rng)
    assert any(one["fast"] is None for one in near)


def test_a_literal_without_a_knock_out_is_always_there() -> None:
    tested = Space({"std": space.literal("-std=c++17"), "n": space.range(0, 1)})
    assert tested.count() == 2
    assert tested.sample(random.Random(0))["std"] == "-std=c++17"


@pytest.mark.parametrize("prob", [1.0, -0.1, 2])
def test_a_probability_is_below_one(prob: float) -> None:
    with pytest.raises(SpaceError, match="knockout_prob must be at least 0 and below 1"):
        space.literal(1, knockout_prob=prob)


def test_conditions_in_a_circle_and_on_strangers_are_errors() -> None:
    with pytest.raises(SpaceError, match="in a circle"):
        Space({"a": when("b", space.flag()), "b": when("a", space.flag())})
    with pytest.raises(UnknownNameError, match="parameter of the constraint 'c'"):
        Space({"a": when("c", space.flag())})
    with pytest.raises(SpaceError, match="looks at the whole configuration"):
        when(lambda configuration: True, space.flag())


def test_a_function_can_be_a_condition() -> None:
    def wide(tile: int) -> bool:
        return tile > 16

    tested = Space({"tile": space.choice([8, 16, 32]), "split": when(wide, space.range(0, 3))})
    assert tested.count() == 2 + 4
