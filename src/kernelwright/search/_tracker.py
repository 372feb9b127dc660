"""Trackers hear of a search as it runs. One that raises or hangs loses its records, never the search."""

from __future__ import annotations

import logging
import queue
import threading
import time
from abc import ABC
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Final
from typing import TYPE_CHECKING

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search._evaluation import Evaluation

if TYPE_CHECKING:
    from kernelwright.search._result import SearchResult

_LOG = logging.getLogger(__name__)
#: So many messages wait for a slow tracker; what comes on top is dropped, and counted.
_WAITING = 10_000
#: After so many errors in a row a tracker is not called again.
_PATIENCE = 5

TrackerConfig = Any
"""A Tracker, a class or function that makes one, its settings as a dict with `type`, a name, or None."""


class Tracker(ABC):
    """What follows a search. Write `evaluation`; `start` and `end` where there is something to open or close.

    All three are called from one thread, which is not the one that searches, in the order of the search.
    """

    def start(self, info: Any) -> None:  # noqa: B027
        """The search begins, or goes on: `info` has its `id` and `settings`."""

    @abstractmethod
    def evaluation(self, evaluation: Evaluation) -> None:
        """An evaluation ended, well or not."""

    def end(self, result: SearchResult | None) -> None:  # noqa: B027
        """The search is over: `result` as the search returns it, None where it was given up."""


class DisabledTracker(Tracker):
    """Follows nothing."""

    def evaluation(self, evaluation: Evaluation) -> None:
        """Do nothing."""


class Guarded(Tracker):
    """Calls another tracker from a thread of its own, so that the search never waits for it, nor fails by it.

    Only `end` waits, up to `patience_s`, for what the tracker has still to do. What went wrong is logged, and
    kept in `problems`.
    """

    def __init__(self, tracker: Tracker, *, patience_s: float = 30.0) -> None:
        self.tracker = tracker
        self.problems: list[str] = []
        self.dropped = 0
        self._patience_s = patience_s
        self._errors = 0
        self._queue: queue.Queue[tuple[Callable[..., None], Any] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None

    def start(self, info: Any) -> None:
        """Pass it on."""
        self._pass(self.tracker.start, info)

    def evaluation(self, evaluation: Evaluation) -> None:
        """Pass it on; dropped where too many wait already."""
        self._pass(self.tracker.evaluation, evaluation)

    def end(self, result: SearchResult | None) -> None:
        """Pass it on, and wait until the tracker is done or the patience is over."""
        if isinstance(self.tracker, DisabledTracker):
            return
        deadline = time.monotonic() + self._patience_s
        self._pass(self.tracker.end, result)
        thread = self._thread
        if thread is None:
            return
        try:
            self._queue.put(None, timeout=self._patience_s)
        except queue.Full:
            pass
        else:
            thread.join(max(deadline - time.monotonic(), 0.0))
        if thread.is_alive():
            self._note(
                f"{self._name} did not finish within {self._patience_s:g} s; "
                f"{self._queue.qsize()} messages were left behind"
            )
        self._thread = None

    @property
    def _name(self) -> str:
        return type(self.tracker).__name__

    def _pass(self, call: Callable[..., None], argument: Any) -> None:
        if isinstance(self.tracker, DisabledTracker):
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait((call, argument))
        except queue.Full:
            self.dropped += 1
            if self.dropped == 1:
                self._note(f"{self._name} is too slow or hangs; what it misses is in the journal")

    def _work(self) -> None:
        while (message := self._queue.get()) is not None:
            call, argument = message
            if self._errors >= _PATIENCE:
                continue
            try:
                call(argument)
                self._errors = 0
            # Whatever a stranger's tracker raises is its own loss.
            except BaseException as error:  # noqa: BLE001
                self._errors += 1
                text = f"{self._name}.{call.__name__} raised {type(error).__name__}: {error}"
                if self._errors == _PATIENCE:
                    text += f"; {_PATIENCE} errors in a row: it is not called again"
                self._note(text)

    def _note(self, text: str) -> None:
        self.problems.append(text)
        _LOG.warning("%s", text)


def make_tracker(config: TrackerConfig) -> Tracker:
    """The tracker that `config` describes, not yet guarded.

    None or "disabled"; "loguru" or "mlflow"; a dict with one of these as `type` and the tracker's arguments;
    a class or function that gives a Tracker; a Tracker. Raises UnknownNameError, UsageError, and
    MissingExtraError when the tracker's package is not installed.
    """
    if config is None:
        return DisabledTracker()
    if isinstance(config, Tracker):
        return config
    if isinstance(config, str):
        return make_tracker({"type": config})
    if isinstance(config, Mapping):
        arguments = dict(config)
        kind = arguments.pop("type", None)
        if isinstance(kind, str):
            if kind not in _KINDS:
                raise UnknownNameError("tracker", kind, _KINDS)
            kind = _KINDS[kind]
        if not callable(kind):
            raise UsageError(
                f"a tracker's settings need a `type`: {', '.join(_KINDS)}, or a class; got {config!r}"
            )
        return _made(kind, arguments)
    if callable(config):
        return _made(config, {})
    raise UsageError(f"a tracker is None, a name, a dict with `type`, a class or a Tracker; got {config!r}")


def _made(factory: Callable[..., Any], arguments: Mapping[str, Any]) -> Tracker:
    try:
        tracker = factory(**arguments)
    except TypeError as error:
        raise UsageError(f"the tracker cannot be made from {dict(arguments)!r}: {error}") from error
    if not isinstance(tracker, Tracker):
        raise UsageError(f"{factory!r} made a {type(tracker).__name__}, not a Tracker")
    return tracker


def _loguru(**arguments: Any) -> Tracker:
    from kernelwright.search._loguru import LoguruTracker

    return LoguruTracker(**arguments)


def _mlflow(**arguments: Any) -> Tracker:
    from kernelwright.search._mlflow import MLflowTracker

    return MLflowTracker(**arguments)


_KINDS: Final[Mapping[str, Callable[..., Tracker]]] = {
    "disabled": DisabledTracker,
    "loguru": _loguru,
    "mlflow": _mlflow,
}
