"""The plots of a search as plotly figures: convergence, parallel coordinates, the Pareto front."""

from __future__ import annotations

from typing import Any
from typing import TYPE_CHECKING

from kernelwright.report import _search_digest as digest
from kernelwright.report._axes import axis
from kernelwright.report._axes import layout

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kernelwright.search import SearchResult

#: Width, colour and opacity of the lines of each tier, the best first.
_TIERS = (("var(--s1)", 2.0, 0.9), ("var(--s0)", 1.0, 0.45), ("var(--muted)", 1.0, 0.25))
_TIER_NAMES = ("the best tenth", "the better half", "the rest")


def convergence(result: SearchResult, objective: int = 0) -> go.Figure:
    """Every candidate's score, the best so far, the baseline, and where evaluations failed."""
    import plotly.graph_objects as go

    seen = digest.convergence(result, objective)
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=seen.numbers,
            y=seen.values,
            mode="markers",
            name="candidates",
            marker={"color": "var(--s0)", "size": 5, "opacity": 0.5},
            customdata=seen.texts,
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=seen.numbers,
            y=seen.best,
            mode="lines",
            name="best so far",
            line={"color": "var(--s1)", "width": 2, "shape": "hv"},
            hoverinfo="skip",
        )
    )
    if seen.failed:
        # On the lower edge, in coordinates of their own: a failure has no score.
        figure.add_trace(
            go.Scatter(
                x=seen.failed,
                y=[0.02] * len(seen.failed),
                yaxis="y2",
                mode="markers",
                name="failed",
                marker={"color": "var(--slower)", "size": 6, "symbol": "x-thin-open"},
                customdata=seen.failures,
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    extra: dict[str, Any] = {"type": "log"} if seen.log else {}
    figure.update_layout(
        **layout(height=360),
        xaxis=axis(title="evaluation", rangemode="tozero"),
        yaxis=axis(title=seen.title, **extra),
        yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    )
    if seen.baseline is not None:
        figure.add_hline(y=seen.baseline, line={"color": "var(--muted)", "width": 1, "dash": "dot"})
    return figure


def parallel(result: SearchResult, objective: int = 0) -> go.Figure:
    """One line a candidate through the values it has; the best ones stand out."""
    import plotly.graph_objects as go

    seen = digest.parallel(result, objective)
    places = list(range(len(seen.axes)))
    figure = go.Figure()
    # The worst are drawn first, so that the best lie on top.
    for tier in reversed(range(len(_TIERS))):
        mine = [number for number, other in enumerate(seen.tiers) if other == tier]
        if not mine:
            continue
        colour, width, opacity = _TIERS[tier]
        figure.add_trace(
            go.Scatter(
                x=[place for _ in mine for place in [*places, None]],
                y=[at for number in mine for at in [*(one.places[number] for one in seen.axes), None]],
                customdata=[seen.texts[number] for number in mine for _ in range(len(places) + 1)],
                hovertemplate="%{customdata}<extra></extra>",
                mode="lines+markers",
                marker={"size": 3},
                line={"color": colour, "width": width},
                opacity=opacity,
                name=_TIER_NAMES[tier],
            )
        )
    notes = [
        {
            "x": place,
            "y": at,
            "text": label,
            "showarrow": False,
            "xanchor": "left",
            "xshift": 4,
            "font": {"size": 10, "color": "var(--muted)"},
        }
        for place, one in zip(places, seen.axes, strict=True)
        for at, label in one.ticks
    ]
    figure.update_layout(
        **layout(height=420),
        xaxis=axis(
            tickvals=places, ticktext=[one.name for one in seen.axes], range=[-0.1, len(places) - 0.5]
        ),
        yaxis={"visible": False, "range": [-0.06, 1.06]},
        annotations=notes,
    )
    return figure


def pareto(result: SearchResult, x: int = 0, y: int = 1) -> go.Figure:
    """All candidates in two objectives, and the front."""
    import plotly.graph_objects as go

    seen = digest.pareto(result, x, y)
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=[one[0] for one in seen.points],
            y=[one[1] for one in seen.points],
            mode="markers",
            name="candidates",
            marker={"color": "var(--muted)", "size": 5, "opacity": 0.5},
            customdata=seen.texts,
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[one[0] for one in seen.front],
            y=[one[1] for one in seen.front],
            mode="lines+markers" if result.num_objectives == 2 else "markers",
            name="Pareto front",
            line={"color": "var(--s1)", "width": 1.5, "shape": step(seen)},
            marker={"color": "var(--s1)", "size": 8, "symbol": "diamond"},
            customdata=seen.front_texts,
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    figure.update_layout(
        **layout(height=420), xaxis=axis(title=seen.titles[0]), yaxis=axis(title=seen.titles[1])
    )
    return figure


def step(seen: digest.Pareto) -> str:
    """How the front's line goes between its points: over what they dominate."""
    return "hv" if seen.directions[0] == "min" else "vh"
