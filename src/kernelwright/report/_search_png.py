"""The plots of a search as PNG, drawn by matplotlib."""

from __future__ import annotations

import io
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.errors import MissingExtraError
from kernelwright.report import _search_digest as digest
from kernelwright.report._search_figures import step

if TYPE_CHECKING:
    from kernelwright.search import SearchResult

_BLUE, _ORANGE, _GREY, _RED = "#2f66bd", "#c2651a", "#5d646c", "#b3352a"
_TIERS = ((_ORANGE, 1.6, 0.9), (_BLUE, 0.8, 0.45), (_GREY, 0.6, 0.25))


def png(result: SearchResult, kind: str, *, objective: int = 0, x: int = 0, y: int = 1) -> bytes:
    """One plot: `convergence`, `parallel` or `pareto`. Raises MissingExtraError without matplotlib."""
    try:
        # The figure's own canvas: pyplot would choose a backend and keep every figure alive.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots", "to draw a plot as PNG") from error
    figure = Figure(figsize=(9.0, 5.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.add_subplot()
    if kind == "convergence":
        _convergence(panel, result, objective)
    elif kind == "parallel":
        _parallel(panel, result, objective)
    else:
        _pareto(panel, result, x, y)
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def _convergence(panel: Any, result: SearchResult, objective: int) -> None:
    seen = digest.convergence(result, objective)
    panel.plot(seen.numbers, seen.values, "o", color=_BLUE, alpha=0.5, markersize=3, label="candidates")
    panel.step(seen.numbers, seen.best, where="post", color=_ORANGE, label="best so far")
    if seen.failed:
        edge = panel.get_xaxis_transform()
        panel.plot(seen.failed, [0.02] * len(seen.failed), "x", color=_RED, transform=edge, label="failed")
    if seen.baseline is not None:
        panel.axhline(seen.baseline, color=_GREY, linestyle=":", linewidth=1.0, label="baseline")
    if seen.log:
        panel.set_yscale("log")
    panel.set_xlabel("evaluation")
    panel.set_ylabel(seen.title)
    panel.grid(visible=True, alpha=0.3)
    panel.legend(frameon=False)


def _parallel(panel: Any, result: SearchResult, objective: int) -> None:
    seen = digest.parallel(result, objective)
    places = list(range(len(seen.axes)))
    for number in reversed(range(len(seen.tiers))):
        colour, width, opacity = _TIERS[seen.tiers[number]]
        heights = [one.places[number] for one in seen.axes]
        panel.plot(places, heights, color=colour, linewidth=width, alpha=opacity)
    for place, one in zip(places, seen.axes, strict=True):
        panel.axvline(place, color=_GREY, linewidth=0.6)
        for at, label in one.ticks:
            panel.annotate(
                label, (place, at), xytext=(3, 0), textcoords="offset points", fontsize=7, va="center"
            )
    panel.set_xticks(places, [one.name for one in seen.axes], rotation=20, ha="right", fontsize=8)
    panel.set_yticks([])
    panel.set_xlim(-0.1, len(places) - 0.5)


def _pareto(panel: Any, result: SearchResult, x: int, y: int) -> None:
    seen = digest.pareto(result, x, y)
    panel.plot(*zip(*seen.points, strict=True), "o", color=_GREY, alpha=0.5, markersize=3, label="candidates")
    if result.num_objectives == 2:
        where = {"hv": "post", "vh": "pre"}[step(seen)]
        panel.step(*zip(*seen.front, strict=True), where=where, color=_ORANGE, linewidth=1.2)
    panel.plot(*zip(*seen.front, strict=True), "D", color=_ORANGE, markersize=5, label="Pareto front")
    panel.set_xlabel(seen.titles[0])
    panel.set_ylabel(seen.titles[1])
    panel.grid(visible=True, alpha=0.3)
    panel.legend(frameon=False)
