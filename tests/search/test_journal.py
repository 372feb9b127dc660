"""The journal keeps what was appended, has one writer, and says when it is broken."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.errors import FileFormatError
from kernelwright.errors import JournalBusyError
from kernelwright.errors import UnreadableError
from kernelwright.search import Journal
from kernelwright.search import read_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def filled(path: Path, events: int = 300) -> None:
    with Journal(path, create=True) as journal:
        for number in range(events):
            journal.append("tick", {"value": number, "text": "x" * 200})


def test_events_come_back_in_order(path: Path) -> None:
    with Journal(path, create=True) as journal:
        first = journal.append("asked", {"configuration": {"a": 1, "flag": True, "o": "-O2"}})
        journal.append("verdict", {"ratios": {"w": 1.5}})
        assert first.number == 1
        assert [event.kind for event in read_journal(path)] == ["asked", "verdict"]
    with Journal(path) as journal:
        journal.append("finished", {})
    events = read_journal(path)
    assert [event.number for event in events] == [1, 2, 3]
    assert events[0].body == {"configuration": {"a": 1, "flag": True, "o": "-O2"}}
    assert events[0].at <= events[1].at <= events[2].at


def test_events_cannot_be_changed_or_removed(path: Path) -> None:
    filled(path, 2)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE events SET kind = 'other'")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("DELETE FROM events")


def test_it_is_one_wal_file_with_one_writer(path: Path) -> None:
    with Journal(path, create=True) as journal:
        journal.append("tick", {})
        assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)
        code = (
            "import sys; from pathlib import Path; from kernelwright.search import Journal\n"
            "try: Journal(Path(sys.argv[1]))\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        assert "JournalBusyError" in other.stdout
        assert f"process {os.getpid()}" in other.stdout
        with pytest.raises(JournalBusyError):
            Journal(path)
    Journal(path).close()


def test_what_was_appended_survives_kill_9(path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from kernelwright.search import Journal\n"
        "journal = Journal(Path(sys.argv[1]), create=True)\n"
        "for number in range(50): journal.append('tick', {'value': number})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [event.body["value"] for event in read_journal(path)] == list(range(50))
    with Journal(path) as journal:
        assert journal.append("tick", {"value": 50}).number == 51


@pytest.mark.parametrize("keep", [0, 1, 100, 4096, 20_000, 60_000])
def test_a_journal_cut_short_is_said_and_set_aside(path: Path, keep: int) -> None:
    filled(path)
    assert path.stat().st_size > 60_000
    os.truncate(path, keep)
    with pytest.raises(FileFormatError):
        read_journal(path)
    assert path.exists()
    with pytest.raises(FileFormatError, match=r"set aside as journal.sqlite.broken-1"):
        Journal(path)
    assert not path.exists()
    assert path.with_name("journal.sqlite.broken-1").stat().st_size == keep
    with Journal(path, create=True) as journal:
        assert journal.append("tick", {}).number == 1


def test_a_journal_overwritten_inside_is_said_and_set_aside(path: Path) -> None:
    filled(path)
    with path.open("r+b") as stream:
        stream.seek(20_000)
        stream.write(os.urandom(9000))
    with pytest.raises(FileFormatError):
        read_journal(path)
    with pytest.raises(FileFormatError, match="set aside"):
        Journal(path)


def test_what_is_not_a_journal_of_this_version_is_said(path: Path, tmp_path: Path) -> None:
    filled(path, 3)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    connection.close()
    with pytest.raises(FileFormatError, match="journal version 99; this release reads version 1"):
        read_journal(path)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    with connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    with pytest.raises(FileFormatError, match="not a journal"):
        read_journal(other)
    text = tmp_path / "text.sqlite"
    text.write_text("not a database at all\n" * 100)
    with pytest.raises(FileFormatError, match="not a journal"):
        read_journal(text)


def test_a_missing_event_is_noticed(path: Path) -> None:
    filled(path, 5)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP TRIGGER no_delete")
        connection.execute("DELETE FROM events WHERE number = 3")
    connection.close()
    with pytest.raises(FileFormatError, match="gaps"):
        read_journal(path)


def test_no_journal_is_made_unless_asked_for(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Journal(path)
    with pytest.raises(FileNotFoundError):
        read_journal(path)
    assert list(path.parent.iterdir()) == []


def test_reading_changes_nothing_on_disk(path: Path) -> None:
    filled(path, 5)
    before = path.read_bytes()
    read_journal(path)
    assert path.read_bytes() == before


def test_a_journal_that_cannot_be_read_now_is_left_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path, create=True) as journal:
        journal.append("asked", {"number": 1})
    real = sqlite3.connect

    def locked(target: object, **options: object) -> sqlite3.Connection:
        if "mode=ro" in str(target):
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return real(target, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", locked)
    with pytest.raises(UnreadableError, match="try again"):
        Journal(path)
    monkeypatch.undo()
    assert [event.kind for event in read_journal(path)] == ["asked"]
