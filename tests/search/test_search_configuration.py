"""A search's configuration is checked, and what it leaves out follows from the space."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright import space
from kernelwright.errors import UsageError
from kernelwright.search import RandomSearch
from kernelwright.search import SearchConfiguration
from kernelwright.space import Space


def space_of(parameters: int, values: int = 100) -> Space:
    return Space({f"p{number}": space.range(1, values) for number in range(parameters)})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"generations": 0}, "generations is a whole number of at least 1, not 0"),
        ({"pool_size": 2.5}, "pool_size is a whole number"),
        ({"max_evaluations": True}, "max_evaluations is a whole number"),
        ({"seed": -1}, "seed is a whole number of at least 0"),
        ({"mutate_rate": 1.5}, "mutate_rate is a number above 0 and at most 1, not 1.5"),
        ({"max_time": 0}, "max_time is a number above 0, not 0"),
        ({"problem_type": "least"}, "problem_type is 'min' or 'max', not 'least'"),
        ({"problem_type": ["min", "max"]}, "names 2 directions for num_objectives=1"),
        ({"pool_size": 4, "cull_size": 4}, "cull_size 4 leaves nothing of pool_size 4"),
        ({"normalize": "yes"}, "normalize is True or False"),
    ],
)
def test_what_makes_no_sense_is_said(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SearchConfiguration(**wrong)


@pytest.mark.parametrize(
    ("given", "derived"),
    [
        (
            {},
            {"pool_size": 10, "max_evaluations": 100, "generations": 10, "cull_size": 5, "mutate_rate": 0.2},
        ),
        ({"generations": 7}, {"max_evaluations": 70}),
        ({"max_evaluations": 33}, {"generations": 4}),
        ({"max_evaluations": 33, "generations": 2}, {"max_evaluations": 20}),
        ({"max_time": 5.0}, {"max_evaluations": None, "generations": None}),
        ({"cull_size": 20}, {"pool_size": 21}),
        ({"pool_size": 30}, {"baseline_every": 30, "cull_size": 15}),
    ],
)
def test_what_is_left_out_follows_from_the_space(given: dict[str, Any], derived: dict[str, Any]) -> None:
    made = SearchConfiguration(**given).derived(space_of(5))
    assert {name: getattr(made, name) for name in derived} == derived


def test_derived_numbers_have_bounds() -> None:
    small = SearchConfiguration().derived(space_of(1, values=30))
    assert (small.pool_size, small.max_evaluations, small.mutate_rate) == (8, 30, 0.5)
    large = SearchConfiguration().derived(space_of(100))
    assert (large.pool_size, large.max_evaluations, large.mutate_rate) == (64, 400, 0.05)


def test_it_is_frozen_and_known_by_the_name_of_its_optimiser() -> None:
    one = SearchConfiguration(num_objectives=2, problem_type=["min", "max"], optimizer=RandomSearch)
    with pytest.raises(AttributeError):
        one.seed = 3  # type: ignore[misc]
    assert one.directions == ("min", "max")
    assert SearchConfiguration(num_objectives=2, problem_type="max").directions == ("max", "max")
    assert one.to_json()["optimizer"] == "RandomSearch"
    assert one.to_json()["problem_type"] == ["min", "max"]
