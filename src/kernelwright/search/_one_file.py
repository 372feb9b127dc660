"""One SQLite file with one writer: its lock, how it is read meanwhile, and what becomes of a broken one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

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
_RETRY_S = 0.05


def lock(path: Path, *, wait_s: float = 0.0) -> IO[str]:
    """Become the one writer of `path`, for as long as the stream is open and the process lives.

    Raises JournalBusyError when another process still writes it after `wait_s` seconds.
    """
    stream = path.with_name(path.name + ".lock").open("a+")
    give_up_at = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() < give_up_at:
                time.sleep(_RETRY_S)
                continue
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            stream.close()
            raise JournalBusyError(path, holder) from None
    stream.seek(0)
    stream.truncate()
    stream.write(str(os.getpid()))
    stream.flush()
    return stream


def connect(path: Path) -> sqlite3.Connection:
    """The writer's connection: what it writes survives `kill -9` of the process (WAL, synchronous=NORMAL)."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


@contextlib.contextmanager
def reading(path: Path, what: str) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing on disk and never blocks the writer.

    Raises FileFormatError when the file is empty, cut short, corrupt or holds what is not JSON;
    UnreadableError when the system does not let it be read now.
    """
    if path.stat().st_size == 0 and not path.with_name(path.name + "-wal").exists():
        raise FileFormatError(path, f"the {what} is empty")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise UnreadableError(path, str(error)) from error
        raise FileFormatError(path, f"the {what} is cut short, corrupt or not a {what} ({error})") from error
    except json.JSONDecodeError as error:
        raise FileFormatError(path, f"the {what} holds an event that is not JSON ({error})") from error


def check(connection: sqlite3.Connection, path: Path, what: str, schema: str, version: int) -> None:
    """Raise FileFormatError unless the file is whole, and of this schema and version."""
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    if meta.get("schema") != schema:
        raise FileFormatError(path, f"expected schema {schema!r}, found {meta.get('schema')!r}")
    if meta.get("version") != str(version):
        raise FileFormatError(
            path, f"{what} version {meta.get('version')}; this release reads version {version}"
        )
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise FileFormatError(path, f"the {what} is corrupt ({state})")


def set_aside(path: Path) -> Path:
    """Rename a broken file, with its write-ahead log, out of the way; where it is now."""
    aside = files.set_aside(path)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + suffix))
    return aside
