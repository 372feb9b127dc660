"""The progress bar: something to see at a terminal, not a byte anywhere else."""

from __future__ import annotations

import io
import threading

from rich.console import Console

from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search._progress import Progress

EVALUATIONS = [
    Evaluation(1, {}, {}, (9.0,), baseline=True),
    Evaluation(2, {"x": 1}, {"x": 1}, (3.25,)),
    Evaluation(3, {"x": 2}, {"x": 2}, failure=Failure("raised", "no")),
    Evaluation(4, {"x": 3}, {"x": 3}, (5.0,)),
]


def shown(*, terminal: bool, **options: object) -> str:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=120)
    with Progress(8, console=console, **options) as progress:  # type: ignore[arg-type]
        for one in EVALUATIONS:
            progress.evaluation(one)
    return screen.getvalue()


def test_a_terminal_sees_counts_failures_and_the_best() -> None:
    text = shown(terminal=True)
    assert "3/8" in text
    assert "best 3.25" in text
    assert "1 failed" in text


def test_the_best_of_a_maximum_is_the_largest() -> None:
    assert "best 5" in shown(terminal=True, directions=("max",))


def test_a_run_that_goes_on_starts_where_it_was() -> None:
    assert "7/8" in shown(terminal=True, done=4)


def test_a_pipe_sees_nothing() -> None:
    assert shown(terminal=False) == ""


def test_it_can_be_switched_off_at_a_terminal() -> None:
    assert shown(terminal=True, disabled=True) == ""


def test_no_thread_of_its_own_disturbs_what_is_measured() -> None:
    before = threading.active_count()
    with Progress(8, console=Console(file=io.StringIO(), force_terminal=True)) as progress:
        progress.evaluation(EVALUATIONS[1])
        assert threading.active_count() == before


def test_a_search_without_an_end_has_a_bar_too() -> None:
    screen = io.StringIO()
    with Progress(None, console=Console(file=screen, force_terminal=True, width=120)) as progress:
        progress.evaluation(EVALUATIONS[1])
    assert "1/?" in screen.getvalue()
