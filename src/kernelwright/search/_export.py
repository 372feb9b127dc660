"""Evaluations as a table: CSV and JSON lines, and back from CSV.

Columns: `generation`, `score_1` …, `params`, `norm_score_1` …, `metadata`; one row an evaluation, failed ones
and the baseline's too. The scores of a failed one are empty (null in JSON lines), as are normalised ones that
are not known. `params` is what the objective got: a compiler's text as it is, all else as JSON. `metadata` is
a JSON object: the evaluation's own, and under `evaluation` its number, flat configuration, failure and so on.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright.errors import FileFormatError
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._optimizer import Failure

#: A failure whose cause the file does not tell.
_UNTOLD = Failure("invalid_score", "the file has no score for it")


def metadata(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation's own metadata and, under `evaluation`, how it was done; only what JSON knows."""
    own: dict[str, Any] = {
        "number": evaluation.number,
        "configuration": files.as_plain(evaluation.configuration),
        "origin": evaluation.origin,
        "started_at": evaluation.started_at,
        "seconds": evaluation.seconds,
        "worker": evaluation.worker,
    }
    if evaluation.baseline:
        own["baseline"] = True
    if evaluation.failure is not None:
        own["failure"] = {"kind": evaluation.failure.kind, "reason": evaluation.failure.reason}
    if evaluation.stderr:
        own["stderr"] = evaluation.stderr
    return {**files.as_plain(evaluation.metadata), "evaluation": own}


def rows(evaluations: Iterable[Evaluation], num_objectives: int) -> list[dict[str, Any]]:
    """One mapping an evaluation, its keys the columns in order."""
    places = range(num_objectives)
    return [
        {
            "generation": one.generation,
            **{f"score_{place + 1}": one.scores[place] if one.scores else None for place in places},
            "params": files.as_plain(one.params, finite=False),
            **{
                f"norm_score_{place + 1}": one.normalised[place] if one.normalised else None
                for place in places
            },
            "metadata": metadata(one),
        }
        for one in evaluations
    ]


def csv_text(evaluations: Iterable[Evaluation], num_objectives: int) -> str:
    """The table as CSV."""
    text = io.StringIO()
    scores = [f"score_{place + 1}" for place in range(num_objectives)]
    columns = ["generation", *scores, "params", *(f"norm_{name}" for name in scores), "metadata"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows(evaluations, num_objectives):
        cells = {**row, "params": _cell(row["params"]), "metadata": json.dumps(row["metadata"])}
        writer.writerow(["" if cells[name] is None else cells[name] for name in columns])
    return text.getvalue()


def jsonl_text(evaluations: Iterable[Evaluation], num_objectives: int) -> str:
    """The table as one JSON object a line."""
    return "".join(json.dumps(row) + "\n" for row in rows(evaluations, num_objectives))


def read_csv(path: Path) -> tuple[list[Evaluation], int]:
    """The evaluations of a CSV file, and how many objectives it has.

    Files of others are read, too: `score_1` and `params` are enough. Raises FileFormatError, which names the
    line, and FileNotFoundError.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            names = list(reader.fieldnames or ())
            count = _objectives(path, names)
            found: list[Evaluation] = []
            for row in reader:
                found.append(_evaluation(path, reader.line_num, row, len(found) + 1, count))
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileFormatError(path, f"not a CSV file ({error})") from error
    return found, count


def flat(params: Any, name: str = "") -> dict[str, Any]:
    """Nested params as one level, `outer.inner` and `0.tile`; a text alone is `config`."""
    if isinstance(params, Mapping):
        parts = list(params.items())
    elif isinstance(params, (list, tuple)) and (not name or any(isinstance(one, Mapping) for one in params)):
        parts = list(enumerate(params))
    else:
        return {name or "config": _frozen(params)}
    made: dict[str, Any] = {}
    for key, value in parts:
        made.update(flat(value, f"{name}.{key}" if name else str(key)))
    return made


def _objectives(path: Path, names: list[str]) -> int:
    count = 0
    while f"score_{count + 1}" in names:
        count += 1
    missing = [name for name in ("score_1", "params") if name not in names]
    if missing:
        raise FileFormatError(
            path,
            f"no column {' and '.join(missing)}; expected generation, score_1 …, params, norm_score_1 …, "
            f"metadata; found {', '.join(names) or 'nothing'}",
        )
    return count


def _evaluation(path: Path, line: int, row: Mapping[str, Any], number: int, count: int) -> Evaluation:
    if None in row or None in row.values():
        raise FileFormatError(path, f"line {line} does not have one cell a column")
    scores = [_number(path, line, row, f"score_{place + 1}") for place in range(count)]
    normalised = [_number(path, line, row, f"norm_score_{place + 1}") for place in range(count)]
    params = _params(row["params"])
    told = _object(path, line, row.get("metadata", ""))
    own = told.pop("evaluation", None)
    own = own if isinstance(own, dict) else {}
    failure = own.get("failure")
    finite = tuple(score for score in scores if score is not None)
    configuration = own.get("configuration")
    if not isinstance(configuration, dict):
        configuration = flat(params)
    generation = _number(path, line, row, "generation")
    scored = len(finite) == count
    return Evaluation(
        number=int(own.get("number", number)),
        configuration={name: _frozen(value) for name, value in configuration.items()},
        params=params,
        scores=finite if scored else None,
        failure=None if scored else Failure(failure["kind"], failure["reason"]) if failure else _UNTOLD,
        generation=int(generation or 0),
        origin=str(own.get("origin", "")),
        baseline=bool(own.get("baseline", params == {})),
        normalised=tuple(one for one in normalised if one is not None) or None,
        started_at=float(own.get("started_at", 0.0)),
        seconds=float(own.get("seconds", 0.0)),
        worker=str(own.get("worker", "")),
        stderr=str(own.get("stderr", "")),
        metadata=told,
    )


def _number(path: Path, line: int, row: Mapping[str, Any], name: str) -> float | None:
    """The number of a cell; None where the column is not there, or the cell empty or not finite."""
    text = (row.get(name) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise FileFormatError(path, f"line {line}: {name} is {text!r}, not a number") from None
    return value if math.isfinite(value) else None


def _cell(params: Any) -> str:
    """A text that could be taken for JSON of something else is quoted."""
    if isinstance(params, str) and params[:1] not in ("{", "[", '"'):
        return params
    return json.dumps(params)


def _params(text: str) -> Any:
    """What a cell of params holds: JSON, Python's own writing of a dict or list, or a text."""
    if text.lstrip()[:1] not in ("{", "[", '"', "("):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def _object(path: Path, line: int, text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {"text": text}
    if not isinstance(found, dict):
        raise FileFormatError(path, f"line {line}: metadata is not a JSON object")
    return found


def _frozen(value: Any) -> Any:
    """Lists, which JSON makes of tuples, as tuples again."""
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
