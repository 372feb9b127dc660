"""Importance finds what mattered, with honest intervals, also where a search did not draw at random."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from kernelwright.errors import NoScoreError
from kernelwright.search import Evaluation
from kernelwright.search import Importances
from kernelwright.search import parameter_importance
from kernelwright.search import SearchResult
from kernelwright.search._columns import columns

VALUES: dict[str, list[Any]] = {
    "tile": [1, 2, 4, 8],
    "mode": ["x", "y", "z"],
    "idle": [True, False],
    "vain": [1, 2, 3, 4, 5],
}


def score(params: dict[str, Any], noise: float) -> float:
    return math.exp(2 * math.log2(params["tile"]) + "xyz".index(params["mode"]) + noise)


def searched(count: int, seed: int, *, greedy: bool = False) -> SearchResult:
    """Draws at random, or, greedy, mostly changes one parameter of the best so far, as optimisers do."""
    generator = random.Random(seed)
    made: list[Evaluation] = []
    for number in range(1, count + 1):
        params = {name: generator.choice(values) for name, values in VALUES.items()}
        if greedy and made and generator.random() < 0.7:
            changed = generator.choice(list(VALUES))
            best = min(made, key=lambda one: one.scores or ())
            params = {**best.configuration, changed: params[changed]}
        made.append(Evaluation(number, params, params, (score(params, generator.gauss(0.0, 0.3)),)))
    return SearchResult(made)


def by_name(found: Importances) -> dict[str, Any]:
    return {one.parameter: one for one in found.parameters}


@pytest.fixture(scope="module")
def truth() -> dict[str, float]:
    found = parameter_importance(searched(6000, 99), permutations=1)
    return {one.parameter: one.share for one in found.parameters}


@pytest.mark.parametrize("greedy", [False, True])
def test_what_matters_is_found_and_the_rest_is_not(greedy: bool, truth: dict[str, float]) -> None:
    found = parameter_importance(searched(150, 1, greedy=greedy))
    assert [one.parameter for one in found.parameters[:2]] == ["tile", "mode"]
    seen = by_name(found)
    assert seen["tile"].matters
    assert seen["mode"].matters
    assert not seen["idle"].matters
    assert not seen["vain"].matters
    assert seen["tile"].share == pytest.approx(truth["tile"], abs=0.25 if greedy else 0.1)
    assert seen["tile"].best.name == "1"
    assert seen["mode"].best.name == "x"


def test_intervals_hold_and_false_claims_are_rare(truth: dict[str, float]) -> None:
    held = claims = 0
    runs = 40
    for seed in range(runs):
        seen = by_name(parameter_importance(searched(90, seed + 10), permutations=99))
        held += sum(low <= truth[name] <= high for name, one in seen.items() for low, high in [one.interval])
        claims += seen["idle"].matters or seen["vain"].matters
    assert held / (4 * runs) >= 0.85
    assert claims / runs <= 0.15


def test_shares_do_not_depend_on_the_direction_or_scale_of_scores() -> None:
    result = searched(120, 3)
    flipped = SearchResult(
        [
            Evaluation(one.number, one.configuration, one.params, (-1000.0 * (one.scores or (0.0,))[0],))
            for one in result
        ],
        problem_type="max",
    )
    straight, other = by_name(result.importance()), by_name(flipped.importance())
    for name, one in straight.items():
        assert other[name].share == pytest.approx(one.share)
        assert other[name].best.name == one.best.name


def test_the_same_seed_gives_the_same_answer() -> None:
    result = searched(80, 5)
    assert result.importance(seed=1) == result.importance(seed=1)


def test_effects_that_need_two_parameters_are_in_the_rest() -> None:
    generator = random.Random(6)
    evaluations = []
    for number in range(1, 201):
        params = {"a": generator.choice([0, 1]), "b": generator.choice([0, 1])}
        evaluations.append(
            Evaluation(number, params, params, (abs(params["a"] - params["b"]) + generator.random() / 10,))
        )
    found = SearchResult(evaluations).importance()
    assert found.rest > 0.9
    assert not any(one.share > 0.1 for one in found.parameters)


def test_parameters_that_moved_together_are_not_proven() -> None:
    generator = random.Random(8)
    evaluations = []
    for number in range(1, 101):
        value = generator.choice([1, 2, 3])
        params = {"a": value, "twin": 10 * value, "other": generator.choice([1, 2])}
        evaluations.append(Evaluation(number, params, params, (value + generator.random() / 10,)))
    seen = by_name(SearchResult(evaluations).importance())
    assert seen["a"].share == pytest.approx(seen["twin"].share)
    assert not seen["a"].matters


def test_what_cannot_be_told_is_an_error_that_says_what_is_needed() -> None:
    with pytest.raises(NoScoreError, match="at least 10 candidates"):
        searched(9, 1).importance()
    wide = [{f"p{place}": (place * n) % 5 % 3 for place in range(12)} for n in range(10)]
    with pytest.raises(NoScoreError, match=r"about \d+ candidates with scores; there are 10"):
        SearchResult([Evaluation(n, one, one, (float(n),)) for n, one in enumerate(wide)]).importance()
    equal = [Evaluation(n, {"a": n % 2}, {}, (1.0,)) for n in range(1, 20)]
    with pytest.raises(NoScoreError, match="all 19 scores are equal"):
        SearchResult(equal).importance()
    alone = [Evaluation(n, {"a": 1}, {}, (float(n),)) for n in range(1, 20)]
    with pytest.raises(NoScoreError, match="no parameter has two values"):
        SearchResult(alone).importance()


def test_levels_cover_all_kinds_of_values() -> None:
    configurations = [
        {
            "small": n % 3,
            "many": float(n * n),
            "knocked": None if n % 2 else 5,
            "order": (0, 1) if n % 2 else (1, 0),
            "flag": n % 2 == 0,
            "same": 1,
            **({"late": 1} if n > 10 else {}),
        }
        for n in range(1, 25)
    ]
    found = {one.name: one for one in columns(configurations, most=4)}
    assert found["small"].levels == ("0", "1", "2")
    assert len(found["many"].levels) == 4
    assert found["many"].levels[0].startswith("1…")
    assert found["knocked"].levels == ("5", "absent")
    assert set(found["order"].levels) == {"(0, 1)", "(1, 0)"}
    assert set(found["flag"].levels) == {"true", "false"}
    assert set(found["late"].levels) == {"1", "absent"}
    assert "same" not in found
    for one in found.values():
        assert len(one.codes) == 24
        assert set(one.codes) == set(range(len(one.levels)))


def test_rare_values_are_pooled() -> None:
    configurations = [{"text": f"only{n}" if n < 5 else "often"} for n in range(20)]
    (one,) = columns(configurations, least=2)
    assert one.levels == ("often", "others")
