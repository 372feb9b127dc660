"""Results that outlive their run: the same configuration of the same objective is not evaluated again."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import pickle
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelwright.errors import UsageError
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._optimizer import Failure
from kernelwright.space import key

#: Failures that another run would most likely not meet again in the same place.
_PASSING = ("timeout", "out_of_memory", "worker_lost")
_WAIT_S = 10.0


class ResultsCache:
    """Scores and lasting failures by objective, space and configuration, in a folder that runs may share.

    `objective` and `space` are hashes: a changed objective is another one. Failures that pass (a timeout, a
    lost worker, too little memory) are not kept. The baseline is never taken from here.
    """

    def __init__(self, folder: Path, objective: str, space: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._prefix = f"{objective}/{space}/"
        self._connection = sqlite3.connect(folder / "results.sqlite", isolation_level=None, timeout=_WAIT_S)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS results (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID"
        )

    def find(self, evaluation: Evaluation) -> Evaluation | None:
        """The evaluation with the result of an earlier run; its metadata say of which, under `cached`."""
        row = self._connection.execute(
            "SELECT body FROM results WHERE name = ?", (self._name(evaluation),)
        ).fetchone()
        if row is None:
            return None
        body = json.loads(row[0])
        return replace(
            evaluation,
            scores=None if body["scores"] is None else tuple(body["scores"]),
            failure=None if body["failure"] is None else Failure(*body["failure"]),
            started_at=body["started_at"],
            seconds=body["seconds"],
            worker=body["worker"],
            metadata={**body["metadata"], "cached": body["run"]},
        )

    def keep(self, run: str, evaluation: Evaluation) -> None:
        """Keep a result, unless it is here already or will not last."""
        failure = evaluation.failure
        if "cached" in evaluation.metadata or (failure is not None and failure.kind in _PASSING):
            return
        body = {
            "run": run,
            "scores": evaluation.scores,
            "failure": None if failure is None else (failure.kind, failure.reason),
            "started_at": evaluation.started_at,
            "seconds": evaluation.seconds,
            "worker": evaluation.worker,
            "metadata": evaluation.metadata,
        }
        self._connection.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?)",
            (self._name(evaluation), json.dumps(body, default=str)),
        )

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _name(self, evaluation: Evaluation) -> str:
        return self._prefix + hashlib.sha256(key(evaluation.configuration).encode()).hexdigest()[:32]


def objective_hash(objective: Callable[[Any], Any]) -> str:
    """A hash of an objective's source: a function's, with defaults and what it closes over, or an object's
    class and state. What they call elsewhere is not looked at.

    Raises UsageError when neither source nor state can be had.
    """
    try:
        parts = _parts(objective)
    except (OSError, TypeError, AttributeError, pickle.PicklingError) as error:
        raise UsageError(
            f"the source of {objective!r} cannot be had ({error}), so that its results could not be told "
            "from another's; define it in a file, or leave cache_folder out"
        ) from error
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _parts(objective: Any) -> list[str]:
    if isinstance(objective, functools.partial):
        given = [*objective.args, *sorted(objective.keywords.items())]
        return [*_parts(objective.func), *map(_state, given)]
    if inspect.ismethod(objective):
        return [*_parts(objective.__func__), _state(objective.__self__)]
    if inspect.isfunction(objective):
        closed = [cell.cell_contents for cell in objective.__closure__ or ()]
        given = [*(objective.__defaults__ or ()), *sorted((objective.__kwdefaults__ or {}).items()), *closed]
        return [inspect.getsource(objective), *map(_state, given)]
    if isinstance(objective, type):
        return [inspect.getsource(objective)]
    return [inspect.getsource(type(objective)), _state(objective)]


def _state(value: Any) -> str:
    if inspect.isfunction(value):
        return "\0".join(_parts(value))
    return pickle.dumps(value).hex()
