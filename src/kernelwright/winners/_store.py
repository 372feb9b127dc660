"""Where winners lie: one JSON file an operator and machine, locked by writers, set aside if broken."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import fields
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright import settings
from kernelwright.errors import FileFormatError
from kernelwright.errors import UsageError
from kernelwright.winners._record import Record

SCHEMA = "kernelwright.winners"
VERSION = 1

_log = logging.getLogger("kernelwright")
_listeners: list[Callable[[], object]] = []
_cache: dict[Path, tuple[tuple[int, int] | None, Shelf]] = {}
_lock = threading.RLock()


@dataclass(frozen=True)
class Shelf:
    """The winners of one operator on one machine, by bucket; `notes` say what is wrong with its file."""

    operator: str
    machine: str
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()


def on_change(listener: Callable[[], object]) -> None:
    """Call `listener` after this process changed the store."""
    _listeners.append(listener)


def folder() -> Path:
    """Where the files lie."""
    return settings.data_dir() / "winners"


def this_machine() -> str:
    """Fingerprint of this machine."""
    from kernelwright import machine

    return machine.fingerprint()


def lookup(operator: str, bucket: str, machine: str | None = None) -> tuple[Record | None, tuple[str, ...]]:
    """The winner of a bucket on a machine (default: this one), and notes on a broken or newer file."""
    shelf = _read(_path(operator, machine or this_machine()))
    found = next((one for one in shelf.records if one.bucket == bucket), None)
    return found, shelf.notes


def find(operator: str, bucket: str, machine: str | None = None) -> Record | None:
    """The winner of a bucket on a machine (default: this one), or None."""
    return lookup(operator, bucket, machine)[0]


def shelves() -> tuple[Shelf, ...]:
    """Every file of the store, by operator and machine."""
    return tuple(_read(path) for path in sorted(folder().glob("*.json")) if not path.name.startswith("."))


def all_records(operator: str | None = None) -> tuple[Record, ...]:
    """Every record of the store, of all machines; of one operator if it is named."""
    records = [record for shelf in shelves() for record in shelf.records]
    return tuple(one for one in records if operator in (None, one.operator))


def store(record: Record) -> None:
    """Keep a record in place of the former winner of its bucket and machine."""
    _update(record.operator, record.machine, lambda old: {**old, record.bucket: record})


def forget(operator: str, bucket: str | None = None, machine: str | None = None) -> int:
    """Drop the winners of an operator on a machine (default: this one), or of one bucket; return how many."""
    dropped = 0

    def drop(old: dict[str, Record]) -> dict[str, Record]:
        nonlocal dropped
        kept = {} if bucket is None else {name: one for name, one in old.items() if name != bucket}
        dropped = len(old) - len(kept)
        return kept

    where = machine or this_machine()
    if _path(operator, where).exists():
        _update(operator, where, drop)
    return dropped


def export(path: Path, records: Iterable[Record] | None = None) -> int:
    """Write records (default: all) to one file that `import_` reads elsewhere; return how many."""
    chosen = list(all_records() if records is None else records)
    files.write_json(path, SCHEMA, VERSION, {"winners": [one.as_dict() for one in chosen]})
    return len(chosen)


def import_(path: Path) -> tuple[Record, ...]:
    """Take in what `export` wrote; return the records. Those of other machines are kept, and serve only
    there.

    Raises FileFormatError for a file that is broken, and UsageError for one that is not there or names an
    operator that no file can have; the store is then as before.
    """
    try:
        document = files.read_json(path, SCHEMA, VERSION)
    except FileNotFoundError as error:
        raise UsageError(f"{path} is not there; `kernelwright winners export FILE` writes one") from error
    records = _records(path, document)
    for record in records:
        _path(record.operator, record.machine)
    for record in records:
        store(record)
    return records


def _path(operator: str, machine: str) -> Path:
    for text in (operator, machine):
        if not re.fullmatch(r"\w[\w.-]*", text):
            raise UsageError(f"{text!r} cannot name a file of winners; letters, digits, _ . - can")
    return folder() / f"{operator}@{machine}.json"


def _read(path: Path) -> Shelf:
    """A file's winners; a file that cannot be read is set aside, and that is said."""
    with _lock:
        stamp = _stamp(path)
        known = _cache.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        operator, _, machine = path.stem.partition("@")
        notes: tuple[str, ...] = ()
        records: tuple[Record, ...] = ()
        if stamp is not None:
            try:
                records = _load(path)
            except FileNotFoundError:
                stamp = None
            except FileFormatError as error:
                notes = _put_aside(path, error)
                if not notes:
                    return _read(path)
                stamp = _stamp(path)
        shelf = Shelf(operator, machine, records, notes)
        _cache[path] = (stamp, shelf)
        return shelf


def _load(path: Path) -> tuple[Record, ...]:
    records = _records(path, files.read_json(path, SCHEMA, VERSION))
    operator, _, machine = path.stem.partition("@")
    for one in records:
        if (one.operator, one.machine) != (operator, machine):
            whose = f"it holds winners of {one.operator} on machine {one.machine}"
            raise FileFormatError(path, f"{whose}, which `kernelwright winners import FILE` takes in")
    return records


def _put_aside(path: Path, error: FileFormatError) -> tuple[str, ...]:
    """Set a broken file aside and say so; nothing where another process has done that or has mended it."""
    with files.lock(_lock_path(path)):
        try:
            _load(path)
        except FileFormatError:
            kept = files.set_aside(path)
            text = f"winners in {path.name} cannot be read ({error.reason}); kept as {kept.name}, ignored"
            _log.warning(text)
            return (text,)
        except FileNotFoundError:
            pass
    return ()


def _update(operator: str, machine: str, change: Callable[[dict[str, Record]], dict[str, Record]]) -> None:
    path = _path(operator, machine)
    with files.lock(_lock_path(path)):
        try:
            old = {one.bucket: one for one in _load(path)}
        except FileNotFoundError:
            old = {}
        except FileFormatError as error:
            _log.warning(
                "winners in %s cannot be read (%s); kept as %s", path, error.reason, files.set_aside(path)
            )
            old = {}
        new = change(old)
        if new:
            files.write_json(
                path, SCHEMA, VERSION, {"winners": [new[name].as_dict() for name in sorted(new)]}
            )
        else:
            path.unlink(missing_ok=True)
    with _lock:
        _cache.pop(path, None)
    for listener in list(_listeners):
        listener()


def _lock_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


_KINDS: dict[str, type] = {
    **dict.fromkeys(("operator", "bucket", "machine", "implementation", "created"), str),
    **dict.fromkeys(("configuration", "provenance", "evidence"), dict),
}


def _records(path: Path, document: dict[str, Any]) -> tuple[Record, ...]:
    listed = document.get("winners")
    if not isinstance(listed, list):
        raise FileFormatError(path, "it has no list of winners")
    records: list[Record] = []
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict):
            raise FileFormatError(path, f"winner {number} is not an object")
        for one in fields(Record):
            if not isinstance(entry.get(one.name), _KINDS[one.name]):
                raise FileFormatError(path, f"winner {number} has no valid {one.name!r}")
        if not all(isinstance(value, int | float | str) for value in entry["configuration"].values()):
            raise FileFormatError(path, f"winner {number} has a configuration that is not plain values")
        records.append(Record(**{one.name: entry[one.name] for one in fields(Record)}))
    return tuple(records)
