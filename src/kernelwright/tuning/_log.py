"""The run's book: every step goes to the journal first, then into the record, then to whoever watches."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright import settings
from kernelwright.errors import UnknownNameError
from kernelwright.search import Journal
from kernelwright.tuning._events import Listener
from kernelwright.tuning._events import Noted
from kernelwright.tuning._events import RunEvent
from kernelwright.tuning._record import fold
from kernelwright.tuning._record import JOURNAL
from kernelwright.tuning._record import run_ids
from kernelwright.tuning._record import RunRecord


class RunLog:
    """Journal, record and clock of one run. The clock stands still between sittings."""

    def __init__(self, journal: Journal, record: RunRecord, listener: Listener | None) -> None:
        self.record = record
        self._journal = journal
        self._listener = listener
        self._origin = time.monotonic() - record.elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds the run has been at work, all sittings together."""
        return time.monotonic() - self._origin

    def write(self, kind: str, body: Mapping[str, Any]) -> None:
        """Journal an event, then fold it into the record."""
        self.record.apply(self._journal.append(kind, {**body, "t": round(self.elapsed_s, 4)}))

    def note(self, text: str) -> None:
        """Write down a remark, once, and say it."""
        if text not in self.record.notes:
            self.write("note", {"text": text})
            self.say(Noted(self.record, text))

    def say(self, event: RunEvent) -> None:
        """Tell whoever watches."""
        if self._listener is not None:
            self._listener(event)

    def close(self) -> None:
        """Release the journal."""
        self._journal.close()


def new_run(body: Mapping[str, Any], listener: Listener | None) -> RunLog:
    """Start a run's book. Its folder appears whole, with its first event, or not at all."""
    runs = settings.runs_dir()
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{body['operator']}-{secrets.token_hex(2)}"
    staging = runs / f".{name}.{os.getpid()}"
    with Journal(staging / JOURNAL, create=True) as journal:
        journal.append("started", {**body, "t": 0.0})
    staging.rename(runs / name)
    return _open(runs / name, listener)


def continued_run(name: str, listener: Listener | None) -> RunLog:
    """Go on with a run's book.

    Raises UnknownNameError naming the runs there are, JournalBusyError while another process is at it,
    FileFormatError when the journal is broken (it is set aside).
    """
    folder = settings.runs_dir() / name
    if "/" in name or not (folder / JOURNAL).exists():
        raise UnknownNameError("run", name, run_ids())
    return _open(folder, listener)


def _open(folder: Path, listener: Listener | None) -> RunLog:
    journal = Journal(folder / JOURNAL)
    try:
        record = fold(folder, journal.events())
    except BaseException:
        journal.close()
        raise
    return RunLog(journal, record, listener)
