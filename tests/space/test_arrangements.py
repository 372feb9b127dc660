"""Permutations and subsets are parameters like any other; JSON's lists are their tuples."""

from __future__ import annotations

import itertools
import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import SpaceError
from kernelwright.space import Parameter
from kernelwright.space import Space

items = st.lists(st.sampled_from(["inline", "licm", "gvn", 1, 2.5]), min_size=1, max_size=4, unique=True)


@st.composite
def arrangements(draw: st.DrawFn) -> Parameter:
    chosen = draw(items)
    if draw(st.booleans()):
        return space.permutation(chosen)
    low = draw(st.integers(0, len(chosen)))
    high = draw(st.integers(low, len(chosen)))
    return space.subset(chosen, min_size=low, max_size=high)


@given(arrangements(), st.integers(0, 2**32))
def test_all_that_is_handed_out_is_a_value_and_encodes_apart(parameter: Parameter, seed: int) -> None:
    rng = random.Random(seed)
    drawn = parameter.sample(rng)
    assert parameter.contains(drawn)
    assert parameter.contains(parameter.default)
    others = parameter.neighbours(drawn)
    assert all(parameter.contains(other) and other != drawn for other in others)
    assert len(set(others)) == len(others)
    for other in (*others, parameter.sample(rng)):
        far = sum(abs(a - b) for a, b in zip(parameter.encode(drawn), parameter.encode(other), strict=True))
        assert far <= 1 + 1e-9
        assert (far == 0) == (other == drawn)


@settings(deadline=None)
@given(arrangements())
def test_listing_is_complete_and_neighbours_reach_all_of_it(parameter: Parameter) -> None:
    listed = parameter.values()
    assert listed is not None
    assert len(listed) == len(set(listed)) == parameter.count
    reached = {parameter.default}
    edge = [parameter.default]
    while edge:
        edge = [o for one in edge for o in parameter.neighbours(one) if o not in reached]
        reached.update(edge)
    assert reached == set(listed)


def test_counts_are_those_of_combinatorics() -> None:
    assert space.permutation(list("abcd")).count == math.factorial(4)
    assert space.subset(list("abcde")).count == 2**5
    assert space.subset(list("abcde"), min_size=1, max_size=2).count == 5 + 10
    assert set(space.permutation([1, 2, 3]).values() or ()) == set(itertools.permutations([1, 2, 3]))
    # A long order is never listed.
    assert space.permutation(list(range(20))).values() is None


def test_subsets_of_any_size_are_equally_likely() -> None:
    rng = random.Random(0)
    drawn = [space.subset(["a", "b", "c"]).sample(rng) for _ in range(4000)]
    for one in space.subset(["a", "b", "c"]).values() or ():
        assert 400 < drawn.count(one) < 600


def test_a_list_from_json_becomes_the_tuple_again() -> None:
    tested = Space({"passes": space.permutation(["licm", "gvn"]), "on": space.subset([1, 2, 3])})
    drawn = tested.sample(random.Random(3))
    back = json.loads(json.dumps(drawn))
    assert isinstance(back["passes"], list)
    assert tested.contains(back)
    assert tested.validate(back) == drawn
    assert isinstance(tested.validate(back)["passes"], tuple)
    assert space.key(back) == space.key(drawn)
    # Long ones too, whose values are never listed.
    tested = Space({"order": space.permutation(list(range(12)))})
    assert tested.validate({"order": list(range(12))}) == {"order": tuple(range(12))}


def test_constraints_look_into_them() -> None:
    tested = Space(
        {"order": space.permutation(["a", "b", "c"]), "on": space.subset([1, 2, 4])},
        ["order[0] == 'a'", "sum(on) <= 3", "4 not in on or len(on) > 1"],
    )
    assert tested.count() == 2 * 4


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: space.permutation([]), "empty list"),
        (lambda: space.permutation("abc"), "not the string"),
        (lambda: space.subset(["a", "a"]), "'a' is listed twice"),
        (lambda: space.subset([1, True]), "alike"),
        (lambda: space.subset([1, 2], min_size=3), "nothing to choose"),
        (lambda: space.subset([1, 2], max_size=1, default=[1, 2]), "default"),
        (lambda: space.permutation([1, 2], default=[1]), "default"),
        (lambda: space.permutation([1, [2]]), "not a number"),
    ],
)
def test_what_makes_no_sense_is_said(make: object, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        make()  # type: ignore[operator]


def test_an_invalid_arrangement_is_refused_with_the_nearest() -> None:
    tested = Space({"order": space.permutation(["a", "b", "c"]), "on": space.subset([1, 2], min_size=1)})
    with pytest.raises(SpaceError, match=r"nearest valid value is \('b', 'a', 'c'\)"):
        tested.validate({"order": ["b", "a"], "on": [1]})
    with pytest.raises(SpaceError, match=r"nearest valid value is \(1,\)"):
        tested.validate({"order": ["b", "a", "c"], "on": []})
    assert not tested.contains({"order": ["b", "a", "c"], "on": [2, 1]})
