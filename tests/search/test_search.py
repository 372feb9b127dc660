"""A search asks, evaluates, stores and tells; its budget, baseline, failures and results are as said."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelwright import space
from kernelwright.errors import BaselineError
from kernelwright.errors import EvaluationFailedError
from kernelwright.errors import SpaceError
from kernelwright.errors import UsageError
from kernelwright.search import BASELINE_CONFIG
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import INVALID_SCORE
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import LocalSearch
from kernelwright.search import make_optimizer
from kernelwright.search import MultiProcessWorker
from kernelwright.search import RandomSearch
from kernelwright.search import read_run
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration
from kernelwright.search import Task
from kernelwright.search import TaskResult
from kernelwright.search import Tracker
from kernelwright.search import Worker

SPACE = {"tile": space.range(1, 40), "unroll": space.choice([1, 2, 4])}


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))


class InlineWorker(Worker):
    """Calls the objective in this process, where a test sees it; by its own clock, one a second."""

    name = "inline"

    def _open(self) -> None:
        self.tasks: list[Task] = []

    def _submit(self, task: Task) -> None:
        self.tasks.append(task)

    def results(self, timeout_s: float | None = None) -> list[TaskResult]:
        while self.tasks:
            task = self.tasks.pop(0)
            answer, began = self.objective(task.config), float(task.number)
            scores = answer if isinstance(answer, tuple) else (answer,)
            failed = None if answer != INVALID_SCORE else Failure("invalid_score")
            self._done(TaskResult(task.number, None if failed else scores, failed, began, 0.0, "inline"))
        return super().results(0.0)

    def _close(self) -> None:
        self.tasks.clear()


def objective(config: dict[str, Any]) -> float:
    return abs(config["tile"] - 17) + float(config["unroll"])


def search(fn: Callable[[Any], Any] = objective, template: Any = None, **more: Any) -> Search:
    setup = {name: more.pop(name) for name in list(more) if name in SearchConfiguration.__dataclass_fields__}
    setup.setdefault("optimizer", RandomSearch)
    more.setdefault("worker_type", InlineWorker)
    return Search(fn, SPACE if template is None else template, SearchConfiguration(**setup), **more)


# -- the budget --------------------------------------------------------------------------------------------


def test_a_search_finds_the_best_point_of_a_small_space_and_stops_there() -> None:
    one = search(template={"tile": space.choice([16, 17, 18]), "unroll": space.choice([1, 2])})
    best = one.start().get_best_result()
    assert best["params"] == {"tile": 17, "unroll": 1}
    assert best["score"] == 1.0
    assert len(one.result.evaluations) == 6
    assert one.store is not None
    assert read_run(one.store).info.finished
    assert one.result.info.finished


@pytest.mark.parametrize(
    ("setup", "count"),
    [({"max_evaluations": 7}, 7), ({"generations": 3, "pool_size": 4}, 12), ({}, 50)],
)
def test_the_budget_is_spent_and_not_more(setup: Mapping[str, Any], count: int) -> None:
    assert len(search(**setup).start().evaluations) == count


def test_a_generation_is_a_count_of_finished_evaluations() -> None:
    result = search(generations=3, pool_size=4).start()
    assert [one.generation for one in result.evaluations] == [0] * 4 + [1] * 4 + [2] * 4


def test_time_ends_a_search_and_what_was_in_flight_stays_asked() -> None:
    def sleep(config: dict[str, Any]) -> float:
        time.sleep(config["s"])
        return 1.0

    one = search(
        sleep, worker_type=MultiProcessWorker, max_time=0.5, template={"s": space.choice([60.0, 61.0])}
    )
    start = time.monotonic()
    assert one.start().evaluations == []
    assert time.monotonic() - start < 20
    assert one.store is not None
    assert len(read_run(one.store).pending) == 1


@pytest.mark.serial
def test_a_free_worker_gets_work_whatever_the_others_do(tmp_path: Path) -> None:
    """One evaluation outlasts the two generations of the others: there is no barrier."""
    done = tmp_path / "done"

    def fn(config: dict[str, Any]) -> float:
        """The first one waits until all others are done."""
        try:
            done.touch(exist_ok=False)
        except FileExistsError:
            with done.open("a") as stream:
                stream.write("x")
            return 1.0
        give_up_at = time.monotonic() + 60
        while done.stat().st_size < 8 and time.monotonic() < give_up_at:
            time.sleep(0.01)
        return 2.0

    template = {"n": space.choice(list(range(9)))}
    result = search(fn, template, worker_type=MultiProcessWorker, pool_size=4).start(num_workers=2)
    assert [one.number for one in result.evaluations][-1] <= 2
    assert [one.generation for one in result.evaluations] == [0] * 4 + [1] * 4 + [2]


# -- what is asked -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("worker", [IsoMultiProcessWorker, MultiProcessWorker])
def test_same_seed_same_evaluations_with_one_worker(worker: type[Worker]) -> None:
    def fn(config: dict[str, Any]) -> float:
        return float(abs(config["tile"] - 17) + config["unroll"])

    def asked(seed: int) -> list[Any]:
        one = search(fn, worker_type=worker, max_evaluations=12, seed=seed, optimizer=LocalSearch)
        return [(each.params, each.scores) for each in one.start().evaluations]

    assert asked(3) == asked(3)
    assert asked(3) != asked(4)


def test_no_configuration_is_evaluated_twice() -> None:
    seen = [str(one.params) for one in search(max_evaluations=100).start(num_workers=3).evaluations]
    assert len(seen) == len(set(seen)) == 100


def test_every_question_is_stored_before_it_is_acted_on_and_every_answer_before_it_is_learned() -> None:
    stored: list[int] = []

    class Looking(RandomSearch):
        def tell(self, configuration: Any, outcome: Any) -> None:
            stored.append(len(read_run(_path(one)).evaluations))
            super().tell(configuration, outcome)

    def fn(config: Any) -> float:
        assert [each.params for each in read_run(_path(one)).pending] == [config]
        return 1.0

    one = search(fn, max_evaluations=5, optimizer=Looking)
    one.start()
    assert stored == [1, 2, 3, 4, 5]


def _path(one: Search) -> Path:
    assert one.store is not None
    return one.store


def test_maximised_objectives_are_negated_for_the_optimiser_alone() -> None:
    told: list[Any] = []

    class Hearing(RandomSearch):
        def tell(self, configuration: Any, outcome: Any) -> None:
            told.append(outcome)
            super().tell(configuration, outcome)

    def fn(config: Any) -> tuple[float, float]:
        return 3.0, float(config["tile"])

    one = search(fn, num_objectives=2, problem_type=["min", "max"], optimizer=Hearing, max_evaluations=3)
    result = one.start()
    assert told == [(3.0, -each.scores[1]) for each in result.evaluations if each.scores]


def test_a_list_of_spaces_reaches_the_objective_as_a_list() -> None:
    got: list[Any] = []

    def fn(mixed: list[Any]) -> float:
        got.append(mixed)
        mine, theirs = mixed
        return float(mine["tile"] + theirs["depth"])

    template = [{"tile": space.range(1, 9)}, {"depth": space.range(1, 9), "kind": "fixed"}]
    best = search(fn, template, max_evaluations=20).start().get_best_result()
    assert all(len(one) == 2 and one[1]["kind"] == "fixed" for one in got)
    mine, theirs = best["params"]
    assert best["score"] == mine["tile"] + theirs["depth"]


# -- the baseline ------------------------------------------------------------------------------------------


def _drifting(config: Mapping[str, Any]) -> float:
    """A machine that gets slower all the time; tile 20 takes twice the baseline."""
    _drifting.clock += 1  # type: ignore[attr-defined]
    speed = 1.0 + 0.1 * _drifting.clock  # type: ignore[attr-defined]
    return speed if config == BASELINE_CONFIG else speed * config["tile"] / 10


def test_normalised_scores_follow_the_drift_of_the_baseline() -> None:
    _drifting.clock = 0  # type: ignore[attr-defined]
    one = search(_drifting, {"tile": space.range(1, 40)}, normalize=True, max_evaluations=20, pool_size=5)
    result = one.start()
    baselines = [each.number for each in result.evaluations if each.baseline]
    assert baselines == [1, 7, 13, 19]
    assert sum(not each.baseline for each in result.evaluations) == 20
    for each in result.evaluations:
        if not each.baseline and each.number < 19:
            assert each.normalised == pytest.approx((each.params["tile"] / 10,), rel=0.03)
    stored = read_run(_path(one)).evaluations
    assert [each.normalised for each in stored] == [each.normalised for each in result.evaluations]
    best = result.get_best_result()
    assert best["norm_score"] == pytest.approx(best["params"]["tile"] / 10, rel=0.1)


def test_the_optimiser_learns_from_normalised_scores_once_there_is_a_baseline() -> None:
    told: list[float] = []

    class Hearing(RandomSearch):
        def tell(self, configuration: Any, outcome: Any) -> None:
            told.append(outcome)
            super().tell(configuration, outcome)

    one = search(
        lambda config: 4.0 if config == {} else 8.0, normalize=True, optimizer=Hearing, max_evaluations=6
    )
    asked = one.ask(3)
    assert asked[0] == BASELINE_CONFIG
    one.tell(asked[1], 8.0)
    assert told == []
    one.tell(asked[0], 4.0)
    one.tell(asked[2], 2.0)
    assert told == [2.0, 0.5]


@pytest.mark.parametrize("answer", [INVALID_SCORE, 0.0, -1.0])
def test_a_search_that_cannot_normalise_stops_at_once(answer: float) -> None:
    one = search(lambda config: answer if config == {} else 1.0, normalize=True)
    with pytest.raises(BaselineError, match="normalize=True divides scores by those of the baseline"):
        one.start()
    assert len(one.result.evaluations) == 1


def test_a_space_that_can_leave_everything_out_begins_with_its_baseline() -> None:
    got: list[Any] = []

    def fn(config: Any) -> float:
        got.append(config)
        return float(len(config))

    flags = {name: space.literal(name, knockout_prob=0.5) for name in "ab"}
    result = search(fn, flags, pool_size=100).start()
    assert got[0] == BASELINE_CONFIG
    assert sorted(map(str, got)) == sorted(map(str, [{}, {"a": "a"}, {"b": "b"}, {"a": "a", "b": "b"}]))
    assert result.evaluations[0].baseline
    assert result.evaluations[0].configuration == {"a": None, "b": None}


def test_without_normalising_there_is_no_baseline_to_evaluate() -> None:
    assert not any(one.baseline for one in search(max_evaluations=5).start().evaluations)


# -- failures ----------------------------------------------------------------------------------------------


def test_failures_are_typed_and_do_not_end_a_search() -> None:
    def picky(config: dict[str, Any]) -> Any:
        what = config["what"]
        if what == "raise":
            raise ValueError("no such tile")
        if what == "die":
            os._exit(3)
        return {"nan": float("nan"), "two": (1.0, 2.0), "invalid": INVALID_SCORE}.get(what, 1.0)

    whats = ["raise", "die", "nan", "two", "invalid", "good"]
    one = search(picky, {"what": space.choice(whats)}, worker_type=IsoMultiProcessWorker)
    result = one.start(task_timeout=30)
    kinds = {each.params["what"]: each.failure.kind for each in result.evaluations if each.failure}
    assert kinds == {
        "raise": "raised",
        "die": "exited",
        "nan": "invalid_score",
        "two": "wrong_arity",
        "invalid": "invalid_score",
    }
    assert "ValueError: no such tile" in next(
        each.stderr for each in result.evaluations if each.params["what"] == "raise"
    )
    assert result.get_best_result()["params"] == {"what": "good"}


def test_exit_on_failure_ends_at_the_first_failure_and_can_be_resumed(tmp_path: Path) -> None:
    def fn(config: Any) -> float:
        return INVALID_SCORE if config["tile"] > 10 else 1.0

    def made(**more: Any) -> Search:
        return search(fn, max_evaluations=30, store=tmp_path / "s.sqlite", **more)

    one = made(exit_on_failure=True, dump_results=tmp_path / "r.csv")
    with pytest.raises(EvaluationFailedError, match=r"failed \(invalid_score") as caught:
        one.start()
    assert caught.value.evaluation.failure.kind == "invalid_score"
    assert [each.failure is not None for each in one.result.evaluations][-1]
    assert sum(each.failure is not None for each in one.result.evaluations) == 1
    assert (tmp_path / "r.csv").read_text().count("\n") == len(one.result.evaluations) + 1
    assert one.run is not None
    assert len(made().resume(one.run).start().evaluations) == 30


def test_a_tracker_that_fails_never_stops_a_search() -> None:
    class Failing(Tracker):
        def evaluation(self, evaluation: Evaluation) -> None:
            raise OSError("the server is away")

    assert len(search(max_evaluations=5, tracker_config=Failing()).start().evaluations) == 5


def test_a_tracker_hears_of_the_run_its_evaluations_and_its_end() -> None:
    heard: list[Any] = []

    class Listening(Tracker):
        def start(self, info: Any) -> None:
            heard.append(info.id)

        def evaluation(self, evaluation: Evaluation) -> None:
            heard.append(evaluation.number)

        def end(self, result: Any) -> None:
            heard.append(len(result.evaluations))

    one = search(max_evaluations=3, tracker_config=Listening())
    one.start()
    assert heard == [one.run, 1, 2, 3, 3]


# -- by hand -----------------------------------------------------------------------------------------------


def test_ask_and_tell_by_hand_are_a_run_like_any_other() -> None:
    with search(max_evaluations=5) as one:
        while asked := one.ask(2):
            for config in asked:
                one.tell(config, objective(config), metadata={"by": "hand"})
        assert len(one.result.evaluations) == 5
        assert read_run(_path(one)).evaluations[0].metadata == {"by": "hand"}
        with pytest.raises(UsageError, match="was told before"):
            one.tell(one.result.evaluations[0].params, 1.0)


def test_what_was_not_asked_can_be_told() -> None:
    with search(max_evaluations=2) as one:
        told = one.tell({"tile": 17, "unroll": 1}, 1.0)
        assert told.origin == "told"
        assert one.tell({"tile": 18, "unroll": 1}, INVALID_SCORE).failure is not None
        assert one.tell({"tile": 19, "unroll": 1}, Failure("wrong", "off by one")).failure == Failure(
            "wrong", "off by one"
        )
        with pytest.raises(SpaceError, match="tile"):
            one.tell({"tile": 99, "unroll": 1}, 1.0)
        assert one.result.get_best_result()["params"] == {"tile": 17, "unroll": 1}


def test_start_evaluates_what_was_asked_and_not_told() -> None:
    one = search(max_evaluations=6)
    asked = one.ask(4)
    one.tell(asked[0], 1.0)
    result = one.start()
    assert len(result.evaluations) == 6
    assert [each.params for each in result.evaluations[:4]] == asked


def test_samples_are_what_the_objective_gets_and_leave_no_trace(tmp_path: Path) -> None:
    one = search(max_evaluations=5, seed=2)
    samples = one.sample(3)
    assert len({str(config) for config in samples}) > 1
    assert all(objective(config) > 0 for config in samples)
    assert search(max_evaluations=5, seed=2).sample(3) == samples
    assert not (tmp_path / "runs").exists()


def test_another_start_is_another_run() -> None:
    one = search(max_evaluations=2)
    one.start()
    first = one.run
    assert len(one.start().evaluations) == 2
    assert one.run != first


def test_settings_of_generations_reach_an_optimiser_that_has_them() -> None:
    made: list[dict[str, Any]] = []

    class Generational(RandomSearch):
        def __init__(self, *arguments: Any, pool_size: int, mutate_rate: float, **options: Any) -> None:
            made.append({"pool_size": pool_size, "mutate_rate": mutate_rate})
            super().__init__(*arguments, **options)

    search(optimizer=Generational, pool_size=6, max_evaluations=2).start()
    search(
        optimizer=Generational, optimizer_options={"mutate_rate": 0.25, "pool_size": 9}, max_evaluations=2
    ).start()
    assert made == [{"pool_size": 6, "mutate_rate": 0.5}, {"pool_size": 9, "mutate_rate": 0.25}]


def test_an_optimiser_of_ones_own_is_used_and_left_as_it_was() -> None:
    one = search(max_evaluations=4)
    mine = make_optimizer("annealing", one.search_space.space, seed=9)
    theirs = Search(
        objective, one.search_space, SearchConfiguration(max_evaluations=4, optimizer=mine), InlineWorker
    )
    assert len(theirs.start().evaluations) == 4
    assert mine.scores == {}
    other = RandomSearch(space.SearchSpace({"x": space.flag()}).space)
    with pytest.raises(UsageError, match="made for another space"):
        search(optimizer=other).start()


@pytest.mark.parametrize("optimizer", ["auto", "random", "annealing", "hill_climbing", "genetic", "nsga2"])
def test_every_optimiser_is_chosen_by_its_name(optimizer: str) -> None:
    result = search(optimizer=optimizer, max_evaluations=25).start()
    assert len({str(one.params) for one in result.evaluations}) == 25


def test_time_alone_limits_a_search_and_the_optimiser_hears_what_an_evaluation_takes() -> None:
    heard: list[float] = []

    class Expecting(RandomSearch):
        def expect(self, seconds: float) -> None:
            heard.append(seconds)

    search(optimizer=Expecting, max_time=60.0).start()
    assert heard == [1.0]  # by the worker's clock
    search(optimizer=Expecting, max_evaluations=20).start()
    assert len(heard) == 1


# -- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_results_are_dumped(tmp_path: Path, name: str) -> None:
    search(max_evaluations=4, dump_results=tmp_path / name).start()
    lines = (tmp_path / name).read_text().splitlines()
    assert len(lines) == 4 + (name == "out.csv")
    assert "score_1" in lines[0]


CALLS: list[Any] = []


def counted(config: Any) -> float:
    CALLS.append(config)
    return INVALID_SCORE if config["tile"] == 3 else float(config["tile"])


def test_the_cache_spares_what_another_run_evaluated(tmp_path: Path) -> None:
    def run(fn: Callable[[Any], Any], template: Any) -> Search:
        one = search(fn, template, cache_folder=tmp_path / "cache")
        one.start()
        return one

    def results(one: Search) -> list[Any]:
        return [(each.params, each.scores, each.failure) for each in read_run(_path(one)).evaluations]

    CALLS.clear()
    small = {"tile": space.range(1, 5)}
    first, second = run(counted, small), run(counted, small)
    assert len(CALLS) == 5
    assert results(first) == results(second)
    assert all(one.metadata["cached"] == first.run for one in second.result.evaluations)
    run(counted, {"tile": space.range(1, 6)})
    assert len(CALLS) == 11  # another space
    with pytest.raises(EvaluationFailedError, match=r"of \{'tile': 3\} failed"):
        search(counted, small, cache_folder=tmp_path / "cache", exit_on_failure=True).start()
    run(lambda config: counted({"tile": config["tile"] + 1}), small)
    assert len(CALLS) == 16  # another objective
    run(functools.partial(_shifted, 1), small)
    run(functools.partial(_shifted, 2), small)
    assert len(CALLS) == 26  # another state of the same objective
    run(functools.partial(_shifted, 2), small)
    assert len(CALLS) == 26


def _shifted(by: int, config: Any) -> float:
    return counted({"tile": config["tile"] + by})


# -- arguments ---------------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_said() -> None:
    with pytest.raises(UsageError, match="the objective is a function"):
        Search(3, SPACE)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="search_config is a SearchConfiguration"):
        Search(objective, SPACE, {"seed": 1})  # type: ignore[arg-type]
    with pytest.raises(SpaceError):
        Search(objective, {})
    one = search(max_evaluations=2)
    for call in (lambda: one.start(num_workers=0), lambda: one.start(task_timeout=-1.0), lambda: one.ask(0)):
        with pytest.raises(UsageError, match=r"not (0|-1\.0)"):
            call()
