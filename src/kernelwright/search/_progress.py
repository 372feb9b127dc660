"""The progress bar of a search: at a terminal only, and never in the way of what is measured."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.search._evaluation import Evaluation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

#: Drawn at most this often: an evaluation may take less than drawing does.
_EVERY_S = 0.1


class Progress:
    """A bar with counts, failures, the best score and the time left; nothing where there is no terminal.

    It is drawn when an evaluation ends, by the thread that says so: no thread of its own wakes up while
    something is measured. A context manager; `evaluation` takes what ended.
    """

    def __init__(
        self,
        total: int | None,
        *,
        done: int = 0,
        directions: Sequence[str] = ("min",),
        normalised: bool = False,
        disabled: bool = False,
        console: Console | None = None,
    ) -> None:
        """`total` evaluations to come to, None where only time ends the search; `done` already."""
        self._total = total
        self._done = done
        self._failed = 0
        self._best: float | None = None
        self._directions = directions
        self._normalised = normalised
        self._disabled = disabled
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._drawn_at = 0.0

    def __enter__(self) -> Progress:
        if self._disabled:
            return self
        from rich.console import Console

        console = self._console or Console(stderr=True)
        if not console.is_terminal:
            return self
        from rich.progress import BarColumn
        from rich.progress import MofNCompleteColumn
        from rich.progress import Progress as Bar
        from rich.progress import TextColumn
        from rich.progress import TimeElapsedColumn

        self._bar = Bar(
            TextColumn("search"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}"),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("search", total=self._total, completed=self._done, said="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._draw()
            self._bar.stop()
            self._bar = None

    def evaluation(self, evaluation: Evaluation) -> None:
        """Count it, and draw."""
        if evaluation.baseline:
            return
        self._done += 1
        if evaluation.failure is not None:
            self._failed += 1
        self._learn(evaluation)
        if self._bar is not None and time.monotonic() - self._drawn_at >= _EVERY_S:
            self._draw()

    def _learn(self, evaluation: Evaluation) -> None:
        scores = evaluation.normalised if self._normalised else evaluation.scores
        if scores is None or len(self._directions) > 1:
            return
        pick = max if self._directions[0] == "max" else min
        self._best = scores[0] if self._best is None else pick(self._best, scores[0])

    def _draw(self) -> None:
        said = [] if self._best is None else [f"best {self._best:.6g}"]
        if self._failed:
            said.append(f"{self._failed} failed")
        self._bar.update(self._task, completed=self._done, said=", ".join(said))
        self._bar.refresh()
        self._drawn_at = time.monotonic()
