"""A run's evaluations as comma-separated values: one row an evaluation."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.tuning import RunRecord

_COLUMNS = (
    "number",
    "origin",
    "implementation",
    "tier",
    "status",
    "reason",
    "stage",
    "reused",
    "build_key",
    "code_key",
    "build_s",
    "started_s",
    "finished_s",
    "score",
)


def results_csv(record: RunRecord) -> str:
    """The table: evaluation, `ratio` with `low` and `high` for each workload, `configuration.` parameters.

    Ratios are default time / candidate time, as screened. What is not known is an empty cell.
    """
    parameters = list(dict.fromkeys(name for one in record.evaluations for name in one.configuration))
    ratios = [f"{kind}[{name}]" for name in record.workloads for kind in ("ratio", "low", "high")]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_COLUMNS, *ratios, *(f"configuration.{name}" for name in parameters)])
    for one in record.evaluations:
        row = [getattr(one, name) for name in _COLUMNS]
        for name in record.workloads:
            row += [one.ratios.get(name), *one.intervals.get(name, (None, None))]
        writer.writerow([*row, *(one.configuration.get(name) for name in parameters)])
    return stream.getvalue()
