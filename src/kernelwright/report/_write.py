"""The report of a run: `report.html`, one file that needs no network, and `results.csv` beside it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

from kernelwright import files
from kernelwright.errors import FileFormatError
from kernelwright.errors import UnknownNameError
from kernelwright.report import _digest
from kernelwright.report import _format
from kernelwright.report._results import results_csv

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kernelwright.machine import Ceilings
    from kernelwright.tuning import RunRecord

REPORT = "report.html"
RESULTS = "results.csv"
LATEST = "latest"


def locate(run: str = LATEST) -> Path:
    """The folder of a run, given by its id, its folder, or as `latest`. Raises UnknownNameError."""
    from kernelwright import settings
    from kernelwright.tuning import run_ids

    known = run_ids()
    if run == LATEST and known:
        return settings.runs_dir() / known[-1]
    if run in known:
        return settings.runs_dir() / run
    folder = Path(run)
    if folder.is_dir():
        return folder.absolute()
    raise UnknownNameError(f"run in {settings.runs_dir()}", run, known)


def write(folder: Path) -> Path:
    """Write the report of the run in `folder`, whole or not at all; return the path of `report.html`.

    A run that is not finished, or still going on, is reported as far as it came.
    Raises UnknownNameError when the folder holds no run, FileFormatError when its journal is broken.
    """
    from kernelwright import machine

    record = _load(folder)
    ceilings = machine.load_ceilings(str(record.machine.get("fingerprint")))
    page = render(record, ceilings)
    files.write_atomic(folder / RESULTS, results_csv(record))
    files.write_atomic(folder / REPORT, page)
    return folder / REPORT


def render(record: RunRecord, ceilings: Ceilings | None) -> str:
    """The page."""
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernelwright.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        _format.bandwidth,
        _format.configuration,
        _format.duration,
        _format.elapsed,
        _format.percent,
        _format.ratio,
        _format.size,
        _format.throughput,
        _digest.shape,
    ):
        environment.filters[function.__name__] = function
    environment.filters["first_line"] = first_line
    environment.filters["moment"] = _moment
    environment.globals["plot_data"] = lambda figure: Markup(script_json(figure))
    return environment.get_template("report.html.j2").render(
        plotly_js=Markup(get_plotlyjs().replace("</script", "<\\/script")),
        NOT_KNOWN=_format.NOT_KNOWN,
        **_page(record, ceilings),
    )


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _page(record: RunRecord, ceilings: Ceilings | None) -> dict[str, Any]:
    from kernelwright.report import _figures

    points = _digest.attained(record, ceilings)
    scores = _digest.effects(record)
    bounds = _bounds([score for values in scores.values() for group in values.values() for score in group])
    return {
        "run": record,
        "headline": _digest.headline(record),
        "verdicts": _digest.verdicts(record),
        "cards": _digest.winner_cards(record),
        "conditions": _digest.conditions,
        "failures": _digest.failures(record),
        "pending": sum(one.status == "pending" for one in record.evaluations),
        "reused": sum(one.reused is not None for one in record.evaluations),
        "points": points,
        "ceilings": ceilings,
        "memory_roofs": _digest.memory_roofs(ceilings) if ceilings else [],
        "compute_roofs": _digest.compute_roofs(ceilings, record.dtype) if ceilings else [],
        "command": _digest.command(record),
        "forest": _figures.forest(record),
        "by_number": _figures.convergence(record, by_time=False),
        "by_time": _figures.convergence(record, by_time=True),
        "roofline": _figures.roofline(points, ceilings, record.dtype) if ceilings else None,
        "attained": _figures.attained(points),
        "effects": {name: _figures.effect(values, bounds) for name, values in scores.items()},
    }


def _load(folder: Path) -> RunRecord:
    from kernelwright.tuning import load_run

    try:
        return load_run(folder)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(folder, f"the journal does not have the events of a run ({error!r})") from error


def script_json(figure: go.Figure) -> str:
    """JSON that may stand inside a script element, whatever the texts in it hold."""
    return json.dumps(json.loads(figure.to_json())).replace("<", "\\u003c")


def _bounds(scores: list[float]) -> tuple[float, float]:
    low, high = min([*scores, 1.0]), max([*scores, 1.0])
    margin = max(1.02, (high / low) ** 0.06)
    return (low / margin, high * margin)


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
