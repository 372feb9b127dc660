"""The store: the runs of searches in one SQLite file, append-only, with one writer, readable meanwhile."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelwright import files
from kernelwright.errors import FileFormatError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search import _one_file as one_file
from kernelwright.search._baseline import normalise
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._optimizer import Failure
from kernelwright.space import Configuration

SCHEMA = "kernelwright-search"
VERSION = 1

_CREATE = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema', '{SCHEMA}'), ('version', '{VERSION}');
CREATE TABLE runs (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created_at REAL NOT NULL,
  settings TEXT NOT NULL, space TEXT NOT NULL);
CREATE TABLE records (number INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs (number),
  at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX records_of_a_run ON records (run);
CREATE TRIGGER no_update BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER run_update BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs are append-only'); END;
CREATE TRIGGER run_delete BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'runs are append-only'); END;
"""


@dataclass(frozen=True)
class RunInfo:
    """A run in a store. `created_at` is seconds since 1970; `space` the space's JSON, None where it has none.

    `settings`: num_objectives, problem_type (one for all, or a list), normalize, optimizer, seed, ….
    `finished`: it came to its end, rather than being stopped or killed.
    """

    id: str = ""
    created_at: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] | None = None
    finished: bool = False


@dataclass(frozen=True)
class Record:
    """One thing that happened in a run: `asked`, `told`, `resumed` or `ended`."""

    at: float
    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """All that is known of a run: evaluations in the order they finished, and those asked but never told."""

    info: RunInfo
    evaluations: list[Evaluation]
    pending: list[Evaluation]
    records: list[Record]


class Store:
    """The writer's side. One process writes at a time; whoever dies leaves a store that is whole.

    When a method returns, its record survives `kill -9` of the process. (A power cut may take the last few;
    the file stays whole.)

    Raises JournalBusyError when another process still writes it after `wait_s` seconds; UnreadableError when
    the system does not let it be read now, which changes nothing; FileFormatError when it is cut short,
    corrupt or of another schema, after renaming it out of the way; FileNotFoundError when it is not there and
    not to be created.
    """

    def __init__(self, path: Path | str, *, create: bool = False, wait_s: float = 0.0) -> None:
        self.path = Path(path)
        if not create and not self.path.exists():
            raise FileNotFoundError(f"there is no store of searches at {self.path}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = one_file.lock(self.path, wait_s=wait_s)
        try:
            known = _numbers(self.path) if self.path.exists() else None
            self._connection = one_file.connect(self.path)
        except FileFormatError as error:
            aside = one_file.set_aside(self.path)
            self._lock.close()
            raise FileFormatError(self.path, f"{error.reason}; it was set aside as {aside.name}") from error
        except BaseException:
            self._lock.close()
            raise
        if known is None:
            self._connection.executescript(f"BEGIN;{_CREATE}COMMIT;")
        self._runs: dict[str, int] = known or {}

    def begin(self, info: RunInfo) -> str:
        """Enter a new run; its id, made here unless `info` has one that is free."""
        name = info.id or new_run_id()
        if name in self._runs:
            raise UsageError(f"{self.path} has a run {name} already; leave the id out, so that one is made")
        number = len(self._runs) + 1
        self._connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?)",
            (number, name, info.created_at or time.time(), _text(info.settings), _text(info.space)),
        )
        self._runs[name] = number
        return name

    def asked(self, run: str, evaluation: Evaluation, *, attempt: int = 1) -> None:
        """An evaluation is about to start."""
        body = {
            "number": evaluation.number,
            "configuration": evaluation.configuration,
            "params": evaluation.params,
            "origin": evaluation.origin,
            "baseline": evaluation.baseline,
            "attempt": attempt,
        }
        self._append(run, "asked", body)

    def told(self, run: str, evaluation: Evaluation) -> None:
        """An evaluation has ended, well or not."""
        failure = evaluation.failure
        body = {
            "number": evaluation.number,
            "scores": evaluation.scores,
            "failure": None if failure is None else (failure.kind, failure.reason),
            "generation": evaluation.generation,
            "started_at": evaluation.started_at,
            "seconds": evaluation.seconds,
            "worker": evaluation.worker,
            "stderr": evaluation.stderr,
            "metadata": evaluation.metadata,
        }
        self._append(run, "told", body)

    def resumed(self, run: str) -> None:
        """Another sitting begins."""
        self._append(run, "resumed", {})

    def ended(self, run: str, reason: str, *, finished: bool) -> None:
        """A sitting ends, in order; the run is `finished` when there is nothing left of it to do."""
        self._append(run, "ended", {"reason": reason, "finished": finished})

    def read(self, run: str | None = None) -> Run:
        """The same as `read_run`."""
        return read_run(self.path, run)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let others write."""
        self._connection.close()
        self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, run: str, kind: str, body: Mapping[str, Any]) -> None:
        if run not in self._runs:
            raise UnknownNameError("run", run, self._runs)
        self._connection.execute(
            "INSERT INTO records (run, at, kind, body) VALUES (?, ?, ?, ?)",
            (self._runs[run], time.time(), kind, _text(body)),
        )


def new_run_id() -> str:
    """A name for a run: the local time to the second, and what tells it from others of the same second."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def read_runs(path: Path | str) -> list[RunInfo]:
    """The runs of a store, the oldest first, also while another process writes it.

    Raises FileNotFoundError, UnreadableError, and FileFormatError when it is cut short, corrupt or of another
    schema.
    """
    with one_file.reading(_there(path), "store") as connection:
        return [info for _, info in _infos(connection, Path(path))]


def read_run(path: Path | str, run_id: str | None = None) -> Run:
    """One run of a store, the latest unless `run_id` says which, also while another process writes it.

    Raises what `read_runs` does, and UnknownNameError for a run that is not there.
    """
    with one_file.reading(_there(path), "store") as connection:
        connection.execute("BEGIN")  # one snapshot for both tables
        infos = _infos(connection, Path(path))
        found = [(number, info) for number, info in infos if run_id in (None, info.id)]
        if not found:
            raise UnknownNameError("run", run_id or "the latest", [info.id for _, info in infos])
        number, info = found[-1]
        rows = connection.execute(
            "SELECT at, kind, body FROM records WHERE run = ? ORDER BY number", (number,)
        )
        records = [Record(at, kind, json.loads(body)) for at, kind, body in rows]
    try:
        evaluations, pending = read_evaluations(records)
    except LookupError as error:
        raise FileFormatError(Path(path), f"a record is missing: {error}") from error
    if info.settings.get("normalize"):
        evaluations = normalise(evaluations)
    return Run(info, evaluations, pending, records)


def _there(path: Path | str) -> Path:
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no store of searches at {path}")
    return Path(path)


def _numbers(path: Path) -> dict[str, int] | None:
    """The numbers of the runs by id; None for a file whose maker died before filling it."""
    if path.stat().st_size == 0 and not path.with_name(path.name + "-wal").exists():
        return None
    with one_file.reading(path, "store") as connection:
        if not connection.execute("SELECT name FROM sqlite_master").fetchall():
            return None
        return {info.id: number for number, info in _infos(connection, path)}


def _infos(connection: sqlite3.Connection, path: Path) -> list[tuple[int, RunInfo]]:
    one_file.check(connection, path, "store", SCHEMA, VERSION)
    last = connection.execute(
        "SELECT run, body FROM records WHERE number IN (SELECT MAX(number) FROM records GROUP BY run)"
    )
    finished = {run for run, body in last if json.loads(body).get("finished")}
    rows = connection.execute("SELECT number, id, created_at, settings, space FROM runs ORDER BY number")
    return [
        (number, RunInfo(name, created_at, json.loads(settings), json.loads(space), number in finished))
        for number, name, created_at, settings, space in rows
    ]


def read_evaluations(records: Sequence[Record]) -> tuple[list[Evaluation], list[Evaluation]]:
    """The evaluations that ended, in that order, and those asked that did not.

    Raises LookupError for one that was told and never asked.
    """
    asked: dict[int, Evaluation] = {}
    told: list[Evaluation] = []
    for record in records:
        body = record.body
        if record.kind == "asked":
            asked[body["number"]] = Evaluation(
                body["number"],
                _configuration(body["configuration"]),
                body["params"],
                origin=body["origin"],
                baseline=body["baseline"],
            )
        elif record.kind == "told":
            if body["number"] not in asked:
                raise LookupError(f"evaluation {body['number']} was told, and never asked")
            scores, failure = body["scores"], body["failure"]
            told.append(
                replace(
                    asked.pop(body["number"]),
                    scores=None if scores is None else tuple(scores),
                    failure=None if failure is None else Failure(*failure),
                    generation=body["generation"],
                    started_at=body["started_at"],
                    seconds=body["seconds"],
                    worker=body["worker"],
                    stderr=body["stderr"],
                    metadata=body["metadata"],
                )
            )
    return told, list(asked.values())


def _configuration(stored: Mapping[str, Any]) -> Configuration:
    """JSON has lists where a configuration has tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}


def _text(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):  # what JSON lacks is kept as its text
        return json.dumps(files.as_plain(value), separators=(",", ":"))
