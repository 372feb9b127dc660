"""The journal: an append-only list of events in one SQLite file, with one writer, readable meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelwright import files
from kernelwright.errors import FileFormatError
from kernelwright.errors import JournalBusyError
from kernelwright.errors import UnreadableError

#: What SQLite says of a file that may be whole, but cannot be read now.
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
    }
)

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
        self._lock = _take_lock(path)
        try:
            events = [] if create and not path.exists() else _read(path)
        except FileFormatError as error:
            aside = _set_aside(path)
            self._lock.close()
            raise FileFormatError(path, f"{error.reason}; it was set aside as {aside.name}") from error
        except BaseException:
            self._lock.close()
            raise
        self._events = events
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
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


def _take_lock(path: Path) -> Any:
    stream = path.with_name(path.name + ".lock").open("a+")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.seek(0)
        holder = stream.read().strip() or "unknown"
        stream.close()
        raise JournalBusyError(path, holder) from None
    stream.seek(0)
    stream.truncate()
    stream.write(str(os.getpid()))
    stream.flush()
    return stream


def _read(path: Path) -> list[Event]:
    if path.stat().st_size == 0 and not path.with_name(path.name + "-wal").exists():
        raise FileFormatError(path, "the journal is empty")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            events = _events_in(connection, path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise UnreadableError(path, str(error)) from error
        raise FileFormatError(
            path, f"the journal is cut short, corrupt or not a journal ({error})"
        ) from error
    except json.JSONDecodeError as error:
        raise FileFormatError(path, f"the journal holds an event that is not JSON ({error})") from error
    if [event.number for event in events] != list(range(1, len(events) + 1)):
        raise FileFormatError(path, "the journal has gaps: events are missing")
    return events


def _events_in(connection: sqlite3.Connection, path: Path) -> list[Event]:
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    if meta.get("schema") != SCHEMA:
        raise FileFormatError(path, f"expected schema {SCHEMA!r}, found {meta.get('schema')!r}")
    if meta.get("version") != str(VERSION):
        raise FileFormatError(
            path, f"journal version {meta.get('version')}; this release reads version {VERSION}"
        )
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise FileFormatError(path, f"the journal is corrupt ({state})")
    rows = connection.execute("SELECT number, at, kind, body FROM events ORDER BY number").fetchall()
    return [Event(number, at, kind, json.loads(body)) for number, at, kind, body in rows]


def _set_aside(path: Path) -> Path:
    aside = files.set_aside(path)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + suffix))
    return aside
