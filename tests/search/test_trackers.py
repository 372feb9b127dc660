"""Trackers hear everything in order; one that raises, hangs or floods costs its own records, nothing else."""

from __future__ import annotations

import builtins
import io
import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright import space
from kernelwright.errors import MissingExtraError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search import DisabledTracker
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import Guarded
from kernelwright.search import LoguruTracker
from kernelwright.search import make_tracker
from kernelwright.search import MLflowTracker
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration
from kernelwright.search import SearchResult
from kernelwright.search import Tracker

INFO = SimpleNamespace(id="run-1", settings={"seed": 7, "optimizer": "auto"})
EVALUATIONS = [
    Evaluation(1, {}, {}, (4.0,), baseline=True, started_at=1e9, seconds=0.5),
    Evaluation(2, {"tile": 64}, {"tile": 64}, (3.0,), normalised=(0.75,), started_at=1e9 + 1, seconds=0.5),
    Evaluation(3, {"tile": 32}, {"tile": 32}, failure=Failure("timeout", "30 s"), started_at=1e9 + 2),
]


class Noted(Tracker):
    """Keeps what it hears, and on which thread."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.threads: set[int] = set()

    def start(self, info: Any) -> None:
        self._note(f"start {info.id}")

    def evaluation(self, evaluation: Evaluation) -> None:
        self._note(f"evaluation {evaluation.number}")

    def end(self, result: SearchResult | None) -> None:
        self._note(f"end {None if result is None else len(result)}")

    def _note(self, text: str) -> None:
        self.heard.append(text)
        self.threads.add(threading.get_ident())


def told(tracker: Tracker) -> None:
    """A whole search, as the driver tells it."""
    tracker.start(INFO)
    for one in EVALUATIONS:
        tracker.evaluation(one)
    tracker.end(SearchResult(EVALUATIONS))


def test_a_guarded_tracker_hears_all_in_order_on_one_thread_of_its_own() -> None:
    tracker = Noted()
    guarded = Guarded(tracker)
    told(guarded)
    assert tracker.heard == ["start run-1", "evaluation 1", "evaluation 2", "evaluation 3", "end 3"]
    assert len(tracker.threads) == 1
    assert threading.get_ident() not in tracker.threads
    assert guarded.problems == []


def test_a_guarded_tracker_may_be_used_for_one_sitting_after_another() -> None:
    tracker = Noted()
    guarded = Guarded(tracker)
    told(guarded)
    told(guarded)
    assert len(tracker.heard) == 10


def test_a_tracker_that_raises_is_noted_and_given_up_in_the_end() -> None:
    calls = 0

    class Broken(Tracker):
        def evaluation(self, evaluation: Evaluation) -> None:
            nonlocal calls
            calls += 1
            raise ConnectionError("no route to host")

    guarded = Guarded(Broken())
    guarded.start(INFO)
    for one in EVALUATIONS * 10:
        guarded.evaluation(one)
    guarded.end(None)
    assert calls == 5
    assert "Broken.evaluation raised ConnectionError: no route to host" in guarded.problems[0]
    assert "not called again" in guarded.problems[-1]


def test_even_a_tracker_that_exits_stops_nothing() -> None:
    class Exits(Tracker):
        def evaluation(self, evaluation: Evaluation) -> None:
            raise SystemExit(3)

    guarded = Guarded(Exits())
    told(guarded)
    assert "SystemExit" in guarded.problems[0]


def test_a_tracker_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    class Hangs(Tracker):
        def evaluation(self, evaluation: Evaluation) -> None:
            release.wait(60)

    guarded = Guarded(Hangs(), patience_s=0.2)
    begun = time.monotonic()
    told(guarded)
    took = time.monotonic() - begun
    release.set()
    assert took < 30
    assert "did not finish within 0.2 s" in guarded.problems[-1]


def test_a_flood_is_dropped_not_piled_up() -> None:
    release = threading.Event()

    class Slow(Tracker):
        def evaluation(self, evaluation: Evaluation) -> None:
            release.wait(60)

    guarded = Guarded(Slow(), patience_s=0.1)
    for _ in range(10_100):
        guarded.evaluation(EVALUATIONS[0])
    assert 90 <= guarded.dropped <= 101
    guarded.end(None)
    release.set()
    assert "too slow or hangs" in guarded.problems[0]


def test_a_search_with_a_broken_tracker_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path))

    class Broken(Tracker):
        def start(self, info: Any) -> None:
            raise RuntimeError("start")

        def evaluation(self, evaluation: Evaluation) -> None:
            raise RuntimeError("evaluation")

        def end(self, result: SearchResult | None) -> None:
            raise RuntimeError("end")

    def square(config: dict[str, int]) -> float:
        return float(config["x"] ** 2)

    scores = []
    for tracker in (None, Broken, Noted()):
        search = Search(
            square,
            {"x": space.range(0, 9)},
            SearchConfiguration(max_evaluations=6, seed=1),
            worker_type=MultiProcessWorker,
            tracker_config=tracker,
        )
        scores.append([one["score"] for one in search.start().get_results()])
        if isinstance(tracker, Noted):
            assert tracker.heard[0] == f"start {search.run}"
            assert tracker.heard[-1] == "end 6"
            assert len(tracker.heard) == 8
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.parametrize(
    "config", [None, "disabled", {"type": "disabled"}, DisabledTracker, DisabledTracker()]
)
def test_nothing_is_tracked_unless_asked_for(config: Any) -> None:
    assert isinstance(make_tracker(config), DisabledTracker)


def test_trackers_are_described_in_many_ways() -> None:
    mine = Noted()
    assert make_tracker(mine) is mine
    assert isinstance(make_tracker(Noted), Noted)
    assert isinstance(make_tracker({"type": Noted}), Noted)
    assert isinstance(make_tracker(lambda: mine), Noted)
    assert isinstance(make_tracker("loguru"), LoguruTracker)
    assert isinstance(make_tracker({"type": "mlflow", "experiment": "x"}), MLflowTracker)


def test_what_is_no_tracker_is_refused_with_what_would_be() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'mlflow'"):
        make_tracker("mlfow")
    with pytest.raises(UsageError, match="need a `type`"):
        make_tracker({"experiment": "x"})
    with pytest.raises(UsageError, match="got 3"):
        make_tracker(3)
    with pytest.raises(UsageError, match="made a dict, not a Tracker"):
        make_tracker(dict)
    with pytest.raises(UsageError, match=r"cannot be made from .*colour"):
        make_tracker({"type": "mlflow", "colour": "red"})


@pytest.mark.parametrize("name", ["loguru", "mlflow"])
def test_a_missing_package_is_said_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(wanted: str, *rest: Any, **more: Any) -> Any:
        if wanted.split(".")[0] == name:
            raise ImportError(f"No module named {name!r}", name=name)
        return real(wanted, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=rf"pip install 'kernelwright\[{name}\]'"):
        make_tracker(name)


def test_loguru_gets_a_line_each() -> None:
    sink = io.StringIO()
    told(LoguruTracker(sink, format="{level} {message}"))
    lines = sink.getvalue().splitlines()
    assert lines[0] == "INFO search run-1 begins: seed=7 optimizer=auto"
    assert lines[1].startswith("INFO #1 score 4 in 0.5 s: baseline")
    assert lines[2] == "INFO #2 score 3 in 0.5 s: {'tile': 64}"
    assert lines[3] == "WARNING #3 timeout: {'tile': 32} 30 s"
    assert lines[4].startswith("INFO search ends: SearchResult(3 evaluations, 1 failed")
    assert len(lines) == 5


def test_mlflow_keeps_settings_scores_and_the_best_in_its_database(tmp_path: Path) -> None:
    base = tmp_path / "mlflow.db"
    told(MLflowTracker(f"sqlite:///{base}", experiment="kernels", tags={"gpu": "none"}))
    # Read without MLflow: this is what any of its front ends sees.
    with sqlite3.connect(base) as database:
        rows = database.execute("SELECT key, value, step FROM metrics ORDER BY step, key").fetchall()
        parameters = dict(database.execute("SELECT key, value FROM params"))
        tags = dict(database.execute("SELECT key, value FROM tags"))
        (status,) = database.execute("SELECT status FROM runs").fetchone()
        names = [name for (name,) in database.execute("SELECT name FROM experiments")]
    assert ("baseline_score_1", 4.0, 1) in rows
    assert ("score_1", 3.0, 2) in rows
    assert ("norm_score_1", 0.75, 2) in rows
    assert ("failed_timeout", 1.0, 3) in rows
    assert ("failures", 1.0, 3) in rows
    assert ("best_1", 3.0, 2) in rows
    assert parameters == {"seed": "7", "optimizer": "auto"}
    assert tags["best.params"] == "{'tile': 64}"
    assert tags["gpu"] == "none"
    assert status == "FINISHED"
    assert "kernels" in names

    # A search that is resumed goes on in the same MLflow run.
    told(MLflowTracker(f"sqlite:///{base}", experiment="kernels"))
    with sqlite3.connect(base) as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (1,)
