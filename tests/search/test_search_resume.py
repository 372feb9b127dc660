"""A run goes on where it was left: after a stop, Ctrl-C, an error or kill -9, in any process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright import space
from kernelwright.errors import JournalBusyError
from kernelwright.errors import RunMismatchError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search import Evaluation
from kernelwright.search import LocalSearch
from kernelwright.search import MultiProcessWorker
from kernelwright.search import RandomSearch
from kernelwright.search import read_run
from kernelwright.search import read_runs
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

KILL = Path(__file__).parents[2] / "benchmarks" / "search_kill.py"
SPACE = {"tile": space.range(1, 40), "unroll": space.choice([1, 2, 4])}


def objective(config: dict[str, Any]) -> float:
    return float(abs(config["tile"] - 17) + config["unroll"])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def search(store: Path | None, template: Any = None, **setup: Any) -> Search:
    setup = {"optimizer": LocalSearch, "max_evaluations": 30, **setup}
    return Search(
        portable(), SPACE if template is None else template, SearchConfiguration(**setup), store=store
    )


def portable() -> Callable[[Any], float]:
    """The objective, as a function that does not need this module where it runs."""

    def objective(config: dict[str, Any]) -> float:
        return float(abs(config["tile"] - 17) + config["unroll"])

    return objective


def by_hand(one: Search, most: int | None = None) -> list[Any]:
    """Evaluate here, one at a time, and leave the run after `most`."""
    done: list[Any] = []
    while (most is None or len(done) < most) and (asked := one.ask(1)):
        one.tell(asked[0], objective(asked[0]))
        done.append(asked[0])
    return done


def test_a_resumed_run_asks_what_an_uninterrupted_one_would(store: Path, tmp_path: Path) -> None:
    whole = by_hand(search(tmp_path / "whole.sqlite"))
    parts: list[Any] = []
    with search(store) as one:
        parts += by_hand(one, 7)
        run = one.run
        assert run is not None
    for most in (1, 12, None):
        with search(store).resume(run) as one:
            parts += by_hand(one, most)
    assert parts == whole
    assert len(read_run(store).evaluations) == 30
    assert len(read_runs(store)) == 1


def test_what_was_in_flight_is_asked_again_first_and_nothing_else(store: Path) -> None:
    with search(store) as one:
        by_hand(one, 5)
        left = one.ask(3)
        run = one.run
        assert run is not None
    one = search(store).resume(run)
    assert one.ask(2) == left[:2]
    one.close()
    with search(store).resume(run) as one:
        assert one.ask(3) == left
        by_hand(one)
        for config in left:
            one.tell(config, objective(config))
        params = [str(each.params) for each in one.result.evaluations]
        assert len(params) == len(set(params)) == 30


def test_an_optimiser_that_does_not_repeat_itself_is_told_what_happened(store: Path) -> None:
    class Fickle(RandomSearch):
        """Asks something else in each process."""

        made = 0

        def __init__(self, *arguments: Any, **options: Any) -> None:
            Fickle.made += 1
            super().__init__(*arguments, **{**options, "seed": Fickle.made})

    with search(store, optimizer=Fickle) as one:
        by_hand(one, 10)
        left = one.ask(1)
    with search(store, optimizer=Fickle).resume(store) as one:
        assert one.ask(1) == left
        one.tell(left[0], 1.0)
        by_hand(one)
        params = [str(each.params) for each in one.result.evaluations]
    assert len(params) == len(set(params)) == 30


def test_a_run_with_a_baseline_goes_on_with_it(store: Path, tmp_path: Path) -> None:
    def hand(one: Search, most: int) -> list[Any]:
        done = []
        while len(done) < most and (asked := one.ask(1)):
            one.tell(asked[0], objective(asked[0]) if asked[0] else 4.0)
            done.append(asked[0])
        return done

    setup: dict[str, Any] = {"normalize": True, "pool_size": 4}
    whole = hand(search(tmp_path / "whole.sqlite", **setup), 99)
    assert whole.count({}) == 8
    with search(store, **setup) as one:
        first = hand(one, 13)
    with search(store, **setup).resume(store) as one:
        assert first + hand(one, 99) == whole


def test_a_finished_run_can_be_given_a_larger_budget(store: Path) -> None:
    one = search(store, max_evaluations=5)
    one.start()
    run = str(one.run)
    assert len(search(store, max_evaluations=5).resume(run).start().evaluations) == 5
    assert len(search(store, max_evaluations=9).resume(run).start().evaluations) == 9
    assert read_run(store, run).info.finished


def test_a_run_is_found_by_its_id_among_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    with search(None) as one:
        by_hand(one, 3)
        run = str(one.run)
        assert one.store == tmp_path / "runs" / run / "journal.sqlite"
    for where in (run, tmp_path / "runs" / run, tmp_path / "runs" / run / "journal.sqlite"):
        with search(None).resume(where) as again:
            assert len(again.result.evaluations) == 3
    with pytest.raises(UnknownNameError, match=f"did you mean '{run}'"):
        search(None).resume(run + "0")


def test_a_run_of_something_else_is_refused(store: Path) -> None:
    with search(store) as one:
        by_hand(one, 2)
        run = str(one.run)
    for what, other in {
        "space": search(store, {"tile": space.range(1, 41), "unroll": space.choice([1, 2, 4])}),
        "num_objectives": search(store, num_objectives=2),
        "problem_type": search(store, problem_type="max"),
        "normalize": search(store, normalize=True),
    }.items():
        with pytest.raises(RunMismatchError, match=f"was begun with {what}"):
            other.resume(run)
    with pytest.raises(UnknownNameError, match="unknown run 'other'"):
        search(store).resume("other")
    with search(store).resume(run) as one, pytest.raises(UsageError, match="this search is at run"):
        one.resume(run)


def test_a_run_that_someone_is_at_is_not_taken_over(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.search._search._RELEASE_S", 0.1)
    with search(store) as one:
        by_hand(one, 1)
        with pytest.raises(JournalBusyError, match=f"process {os.getpid()}"):
            search(store).resume(str(one.run))


def test_an_error_in_the_optimiser_leaves_a_run_that_can_be_resumed(store: Path) -> None:
    class Broken(LocalSearch):
        def _learn(self, *arguments: Any) -> None:
            super()._learn(*arguments)
            if len(self.scores) == 4:
                raise ZeroDivisionError("a bug")

    one = search(store, optimizer=Broken)
    with pytest.raises(ZeroDivisionError):
        by_hand(one)
    one.close()
    with search(store).resume(store) as one:
        assert len(one.result.evaluations) == 4
        by_hand(one)
        assert len(one.result.evaluations) == 30


SCRIPT = """
    import sys, time
    from kernelwright import search, space

    def objective(config):
        if config["x"] == 1:
            print("begun", flush=True)
        time.sleep(60.0 if config["x"] > 2 else 0.0)
        return float(config["x"])

    if __name__ == "__main__":
        one = search.Search(
            objective, {"x": space.choice([1, 2, 3, 4, 5])}, search.SearchConfiguration(optimizer=Ordered),
            worker_type=search.WORKER, store=sys.argv[1],
        )
        result = one.start(num_workers=2)
        print(len(result.evaluations), result.get_best_result()["score"])
"""
ORDERED = """
class Ordered(search.RandomSearch):
    def _propose(self, rng):
        new = [one for one in self.space.configurations() if self._is_new(one)]
        return search.Proposal(new[0], "ordered") if new else None
"""


@pytest.mark.parametrize("worker", ["IsoMultiProcessWorker", "MultiProcessWorker"])
def test_ctrl_c_stops_in_good_order_with_the_result_so_far(store: Path, tmp_path: Path, worker: str) -> None:
    script = tmp_path / "script.py"
    head, body = textwrap.dedent(SCRIPT).split("def objective", 1)
    script.write_text(f"{head}{ORDERED}\ndef objective{body}".replace("WORKER", worker))
    # A terminal sends Ctrl-C to the whole group: the search, its workers and what they started.
    with subprocess.Popen(
        [sys.executable, str(script), str(store)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            _until(lambda: store.exists() and len(read_run(store).evaluations) == 2)
            os.killpg(running.pid, signal.SIGINT)
            said, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0
    assert said.splitlines()[-1] == "2 1.0"
    run = read_run(store)
    assert run.records[-1].body == {"reason": "interrupted", "finished": False}
    assert [one.params for one in run.pending] == [{"x": 3}, {"x": 4}]
    assert not run.info.finished


def _until(so: Callable[[], bool], patience_s: float = 60.0) -> None:
    import sqlite3
    import time

    from kernelwright.errors import FileFormatError
    from kernelwright.errors import UnreadableError

    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        try:
            if so():
                return
        except (UnknownNameError, UnreadableError, FileFormatError, sqlite3.Error):
            pass  # the store is being made
        time.sleep(0.02)
    raise TimeoutError("it never came to this")


def test_interrupted_in_this_process_the_same_search_goes_on(store: Path) -> None:
    class Interrupting:
        """Presses Ctrl-C when the third evaluation ends."""

        def __init__(self) -> None:
            self.seen = 0

        def __call__(self, evaluation: Evaluation) -> None:
            self.seen += 1
            if self.seen == 3:
                os.kill(os.getpid(), signal.SIGINT)

    one = Search(
        portable(),
        SPACE,
        SearchConfiguration(max_evaluations=8, optimizer=LocalSearch),
        MultiProcessWorker,
        store=store,
    )
    interrupting = Interrupting()
    begun = one._begun()
    begun.listeners.append(interrupting)
    assert len(one.start().evaluations) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert len(one.start().evaluations) == 8
    assert len(read_runs(store)) == 1


@pytest.mark.serial
@pytest.mark.parametrize("worker", ["iso", "pool"])
def test_kill_9_loses_what_was_in_flight_and_nothing_else(worker: str) -> None:
    """Three random moments; the script runs more of them, under every worker."""
    done = subprocess.run(
        [sys.executable, str(KILL), "--worker", worker, "--moments", "3", "--evaluations", "20"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert '"moments": 3' in done.stdout
