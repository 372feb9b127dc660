"""The journal: an append-only list of events in one SQLite file, with one writer, readable meanwhile."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelwright.errors import FileFormatError
from kernelwright.search import _one_file as one_file

SCHEMA = "kernelwright-journal"
VERSION = 1

_CREATE = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema', '{SCHEMA}'), ('version', '{VERSION}');
CREATE TABLE events (number INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
"""


@dataclass(frozen=True)
class Event:
    """One thing that happened: `number` counts from 1 without gaps, `at` is seconds since 1970."""

    number: int
    at: float
    kind: str
    body: Mapping[str, Any]


class Journal:
    """The writer's side. One process writes at a time; whoever dies leaves a journal that is whole.

    When `append` returns, the event survives `kill -9` of the process. (A power cut may take the last few;
    the file stays whole: WAL, synchronous=NORMAL.)

    Raises JournalBusyError when another process writes it; UnreadableError when the system does not let it
    be read now, which changes nothing; FileFormatError when it is cut short, corrupt or
    of another schema, after renaming it out of the way; FileNotFoundError when it is not there and not to be
    created.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if not create and not path.exists():
            raise FileNotFoundError(f"there is no journal at {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = one_file.lock(path)
        try:
            events = [] if create and not path.exists() else _read(path)
        except FileFormatError as error:
            aside = one_file.set_aside(path)
            self._lock.close()
            raise FileFormatError(path, f"{error.reason}; it was set aside as {aside.name}") from error
        except BaseException:
            self._lock.close()
            raise
        self._events = events
        self._connection = one_file.connect(path)
        if not events and not self._connection.execute("SELECT name FROM sqlite_master").fetchall():
            self._connection.executescript(f"BEGIN;{_CREATE}COMMIT;")

    def append(self, kind: str, body: Mapping[str, Any]) -> Event:
        """Write one event; when this returns, the event outlives the process."""
        event = Event(len(self._events) + 1, time.time(), kind, json.loads(json.dumps(body)))
        self._connection.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?)",
            (event.number, event.at, kind, json.dumps(event.body, separators=(",", ":"))),
        )
        self._events.append(event)
        return event

    def events(self) -> list[Event]:
        """All events so far, in order."""
        return list(self._events)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let others write."""
        self._connection.close()
        self._lock.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> list[Event]:
    """All events of a journal, also while another process writes it. Changes nothing on disk.

    Raises FileNotFoundError, UnreadableError, and FileFormatError when it is cut short, corrupt or of another
    schema.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no journal at {path}")
    return _read(path)


def _read(path: Path) -> list[Event]:
    with one_file.reading(path, "journal") as connection:
        events = _events_in(connection, path)
    if [event.number for event in events] != list(range(1, len(events) + 1)):
        raise FileFormatError(path, "the journal has gaps: events are missing")
    return events


def _events_in(connection: sqlite3.Connection, path: Path) -> list[Event]:
    one_file.check(connection, path, "journal", SCHEMA, VERSION)
    rows = connection.execute("SELECT number, at, kind, body FROM events ORDER BY number").fetchall()
    return [Event(number, at, kind, json.loads(body)) for number, at, kind, body in rows]
