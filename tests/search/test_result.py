"""The result of a search: the best, the top, the front, and that none of it depends on who asks how."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import NoScoreError
from kernelwright.errors import UsageError
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import SearchResult
from kernelwright.search import Store
from kernelwright.search._store import RunInfo


def scored(number: int, *scores: float, **extra: Any) -> Evaluation:
    params = extra.pop("params", {"tile": number})
    return Evaluation(number, params, params, scores, **extra)


def failed(number: int, kind: str = "raised", reason: str = "boom") -> Evaluation:
    return Evaluation(number, {"tile": number}, {"tile": number}, failure=Failure(kind, reason))


def baseline(number: int, *scores: float, **extra: Any) -> Evaluation:
    return Evaluation(number, {}, {}, scores, baseline=True, **extra)


def test_the_best_result_is_a_dict_with_the_names_of_the_contract() -> None:
    result = SearchResult([scored(1, 3.0), scored(2, 1.0, generation=4), scored(3, 2.0)])
    best = result.get_best_result()
    assert set(best) == {"params", "score", "norm_score", "generation", "metadata"}
    assert best["params"] == {"tile": 2}
    assert best["score"] == 1.0
    assert best["norm_score"] is None
    assert best["generation"] == 4
    assert best["metadata"]["evaluation"]["number"] == 2


def test_a_mixed_space_keeps_its_list_in_the_params() -> None:
    mixed = [{"tile": 64}, "0a1b"]
    (one,) = SearchResult([Evaluation(1, {"0.tile": 64, "1.opt": 3}, mixed, (1.0,))]).get_results()
    assert one["params"] == mixed


def test_a_maximum_is_the_largest_score() -> None:
    result = SearchResult([scored(1, 3.0), scored(2, 1.0)], problem_type="max")
    assert result.get_best_result()["score"] == 3.0
    assert [one["score"] for one in result.top_k(2)] == [3.0, 1.0]


def test_the_earlier_of_equals_is_the_best() -> None:
    result = SearchResult([scored(1, 2.0), scored(2, 1.0), scored(3, 1.0)])
    assert result.best().number == 2


def test_failures_and_the_baseline_are_no_results_unless_asked_for() -> None:
    result = SearchResult([baseline(1, 0.5), scored(2, 1.0), failed(3)])
    assert [one["params"] for one in result.get_results()] == [{"tile": 2}]
    assert result.get_best_result()["params"] == {"tile": 2}
    with_all = result.get_results(failures=True, baselines=True)
    assert [one["score"] for one in with_all] == [0.5, 1.0, None]
    assert with_all[2]["metadata"]["evaluation"]["failure"] == {"kind": "raised", "reason": "boom"}
    assert result.failures == {"raised": 1}


def test_normalised_searches_compare_by_normalised_scores() -> None:
    # The machine got slower: 1.1 late is better than 1.0 early.
    evaluations = [scored(1, 1.0, normalised=(0.9,)), scored(2, 1.1, normalised=(0.7,))]
    assert SearchResult(evaluations, normalize=True).best().number == 2
    assert SearchResult(evaluations, normalize=True).get_best_result()["norm_score"] == 0.7
    assert SearchResult(evaluations, normalize=False).best().number == 1


def test_without_a_baseline_a_normalised_search_compares_by_scores() -> None:
    assert SearchResult([scored(1, 2.0), scored(2, 1.0)], normalize=True).best().number == 2


def test_nothing_to_choose_from_is_an_error_that_says_why() -> None:
    with pytest.raises(NoScoreError, match=r"none of 2 evaluations .*2 raised.*diagnose"):
        SearchResult([failed(1), failed(2)]).get_best_result()
    with pytest.raises(NoScoreError, match="no evaluation yet"):
        SearchResult([]).get_best_result()


def test_top_k_is_what_there_is_and_at_least_one() -> None:
    result = SearchResult([scored(1, 1.0)])
    assert len(result.top_k(5)) == 1
    with pytest.raises(UsageError, match="at least 1"):
        result.top_k(0)


def test_scores_of_another_number_of_objectives_are_refused() -> None:
    with pytest.raises(UsageError, match="evaluation 7 has 2 scores"):
        SearchResult([scored(7, 1.0, 2.0)])
    with pytest.raises(UsageError, match="one of them for each of 2"):
        SearchResult([], num_objectives=2, problem_type=["min"])
    with pytest.raises(UsageError, match="objective 2"):
        SearchResult([scored(1, 1.0, 2.0)], num_objectives=2).get_best_result(objective=2)


TWO = [
    scored(1, 1.0, 9.0),
    scored(2, 5.0, 5.0),
    scored(3, 9.0, 1.0),
    scored(4, 6.0, 6.0),
    scored(5, 2.0, 3.0),
]


def test_the_pareto_front_holds_what_nothing_beats() -> None:
    result = SearchResult(TWO, num_objectives=2)
    assert [one["score"] for one in result.pareto_front()] == [(1.0, 9.0), (2.0, 3.0), (9.0, 1.0)]
    assert result.get_best_result()["score"] == (2.0, 3.0)
    assert result.get_best_result(objective=1)["score"] == (9.0, 1.0)
    assert result.top_k(5)[-1]["score"] == (6.0, 6.0)


def test_each_objective_may_have_a_direction_of_its_own() -> None:
    result = SearchResult(TWO, num_objectives=2, problem_type=("min", "max"))
    assert [one["score"] for one in result.pareto_front()] == [(1.0, 9.0)]


def test_the_hypervolume_is_the_area_between_front_and_reference() -> None:
    result = SearchResult(TWO, num_objectives=2)
    # Three rectangles below (10, 10), counted from the left.
    assert result.hypervolume((10.0, 10.0)) == pytest.approx(1 * 1 + 7 * 7 + 1 * (10 - 1) + 1 * 0 + 0)
    # By default the corner is the worst of each, (9, 9), at which the ends of the front add nothing.
    assert result.hypervolume() == pytest.approx((9 - 2) * (9 - 3))
    assert SearchResult([], num_objectives=2).hypervolume() == 0.0
    with pytest.raises(UsageError, match="2 values"):
        result.hypervolume((1.0,))


def test_the_hypervolume_of_maxima_is_that_of_the_mirrored_minima() -> None:
    mirrored = [scored(one.number, *(-value for value in one.scores or ())) for one in TWO]
    as_max = SearchResult(mirrored, num_objectives=2, problem_type="max").hypervolume((-10.0, -10.0))
    assert as_max == pytest.approx(SearchResult(TWO, num_objectives=2).hypervolume((10.0, 10.0)))


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=25))
def test_the_front_is_exactly_what_is_not_dominated(points: Sequence[tuple[float, float]]) -> None:
    result = SearchResult([scored(n, *point) for n, point in enumerate(points, 1)], num_objectives=2)
    front = {one.number for one in result.front}
    for one in result.candidates:
        beaten = any(
            other.scores != one.scores and all(a <= b for a, b in zip(other.scores, one.scores, strict=True))
            for other in result.candidates
            if other.scores and one.scores
        )
        assert (one.number in front) != beaten


def test_progress_keeps_the_best_so_far_and_leaves_failures_out() -> None:
    result = SearchResult([scored(1, 3.0), failed(2), scored(3, 4.0), scored(4, 1.0), baseline(5, 0.1)])
    assert [(step.value, step.best) for step in result.progress()] == [(3.0, 3.0), (4.0, 3.0), (1.0, 1.0)]


def test_a_run_in_a_store_is_a_result(tmp_path) -> None:
    path = tmp_path / "store.sqlite"
    settings = {"num_objectives": 1, "problem_type": "max", "normalize": False, "seed": 3}
    with Store(path, create=True) as store:
        run = store.begin(RunInfo("one", 5.0, settings))
        for one in (scored(1, 3.0), failed(2, "timeout", "30 s"), scored(3, 4.0)):
            store.asked(run, one)
            store.told(run, one)
        store.asked(run, scored(4, 9.0))  # in flight: not a result
        # Read while the writer still has the store open.
        result = SearchResult.from_journal(path, "one")
    assert result.get_best_result()["score"] == 4.0
    assert result.failures == {"timeout": 1}
    assert len(result) == 3
    assert result.info.id == "one"
    assert SearchResult.from_journal(path).info.id == "one"


def test_minimize_uses_the_space_and_the_objective_of_the_search() -> None:
    names = [f"s{place}" for place in range(12)]
    searched = {name: space.flag() for name in names}
    calls: list[dict[str, bool]] = []

    def objective(config: dict[str, bool]) -> float:
        calls.append(config)
        return 10.0 - 3.0 * config["s2"] - 2.0 * (config["s5"] and config["s9"])

    everything = dict.fromkeys(names, True)
    result = SearchResult(
        [scored(1, 5.0, params=everything), scored(2, 10.0, params=dict.fromkeys(names, False))]
    )
    found = result.minimize(objective, searched)
    assert found.won
    assert dict(found.settings) == {"s2": True, "s5": True, "s9": True}
    assert found.params == {name: name in ("s2", "s5", "s9") for name in names}
    assert found.win == 5.0
    assert found.share == 1.0
    assert found.evaluations == len(calls)


def test_results_of_random_searches_are_consistent() -> None:
    generator = random.Random(4)
    evaluations = [scored(n, generator.random()) if n % 3 else failed(n) for n in range(1, 60)]
    result = SearchResult(evaluations)
    scores = [one["score"] for one in result.top_k(100)]
    assert scores == sorted(scores)
    assert result.progress()[-1].best == scores[0]
    assert len(result.get_results()) + len(result.failed) == len(result) == len(list(result))
    assert math.isclose(result.hypervolume(), scores[-1] - scores[0])
    assert "19 failed" in repr(result)
