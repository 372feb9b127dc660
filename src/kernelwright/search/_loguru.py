"""A tracker that writes a line an evaluation through loguru."""

from __future__ import annotations

from typing import Any
from typing import TYPE_CHECKING

from kernelwright.errors import MissingExtraError
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._tracker import Tracker

if TYPE_CHECKING:
    from kernelwright.search._result import SearchResult


class LoguruTracker(Tracker):
    """Lines at `level`, failures at WARNING; with `sink`, a path or stream of loguru's, there as well.

    Raises MissingExtraError when loguru is not installed.
    """

    def __init__(self, sink: Any = None, *, level: str = "INFO", **options: Any) -> None:
        """`options` are those of `loguru.logger.add`, for `sink`."""
        try:
            from loguru import logger
        except ImportError as error:
            raise MissingExtraError("loguru", "loguru", "to track a search in a log") from error
        self._logger = logger.bind(search="")
        self._level = level
        # Lines of other searches, and of anything else that logs, stay out of this sink.
        self._key = id(self)
        self._sink = None
        if sink is not None:
            self._sink = logger.add(
                sink, level=level, filter=lambda line: line["extra"].get("tracker") == self._key, **options
            )

    def start(self, info: Any) -> None:
        """Write the run's name and settings."""
        self._logger = self._logger.bind(search=str(getattr(info, "id", "")), tracker=self._key)
        settings = getattr(info, "settings", None) or {}
        told = " ".join(f"{name}={value}" for name, value in settings.items())
        self._logger.log(self._level, "search {} begins: {}", getattr(info, "id", ""), told)

    def evaluation(self, evaluation: Evaluation) -> None:
        """Write one line."""
        what = "baseline" if evaluation.baseline else evaluation.params
        if evaluation.failure is not None:
            failure = evaluation.failure
            self._logger.warning("#{} {}: {} {}", evaluation.number, failure.kind, what, failure.reason)
            return
        scores = ", ".join(f"{score:.6g}" for score in evaluation.scores or ())
        self._logger.log(
            self._level, "#{} score {} in {:.3g} s: {}", evaluation.number, scores, evaluation.seconds, what
        )

    def end(self, result: SearchResult | None) -> None:
        """Write how it ended, and let go of the sink."""
        self._logger.log(self._level, "search ends: {}", "given up" if result is None else repr(result))
        if self._sink is not None:
            self._logger.complete()
            self._logger.remove(self._sink)
            self._sink = None
