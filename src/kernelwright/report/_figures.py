"""The plots, as plotly figures. Colours name CSS variables of the page, so one figure serves both themes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.report import _digest
from kernelwright.report._axes import axis
from kernelwright.report._axes import decades
from kernelwright.report._axes import layout
from kernelwright.report._axes import ratio_axis
from kernelwright.report._digest import Attained
from kernelwright.report._digest import shape
from kernelwright.report._format import bandwidth
from kernelwright.report._format import configuration
from kernelwright.report._format import duration
from kernelwright.report._format import ratio
from kernelwright.report._format import throughput

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kernelwright.machine import Ceilings
    from kernelwright.tuning import RunRecord

_COLOURS = tuple(f"var(--s{number})" for number in range(8))
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star", "hexagon", "cross")
_WHO = {
    "default": ("var(--s7)", "circle"),
    "winner": ("var(--s0)", "diamond"),
    "torch": ("var(--s1)", "square"),
}
_ROW = 34


def forest(record: RunRecord) -> go.Figure | None:
    """Ratios with their intervals, one row a workload, mode and regime, one colour a baseline."""
    import plotly.graph_objects as go

    rows: list[tuple[str, str]] = []
    series: dict[str, list[tuple[int, Any]]] = {}
    for row in _digest.verdicts(record):
        for contest in _digest.shown_contests(row.result):
            regime = {"preallocated": "prealloc."}.get(contest["regime"], contest["regime"])
            line = (row.result.workload, f"{contest['mode']}, {regime}")
            if line not in rows:
                rows.append(line)
            final = contest["stage"] == "final"
            name = f"{contest['baseline']}{', final only' if final else ''}"
            series.setdefault(name, []).append((rows.index(line), contest))
    if not rows:
        return None
    starts = {index for index, (name, _) in enumerate(rows) if index == 0 or rows[index - 1][0] != name}
    labels = [
        f"<b>{shape(name)}</b><br>{kind}" if index in starts else kind
        for index, (name, kind) in enumerate(rows)
    ]
    # A workload's first row has two lines of label, so it takes more room than the others.
    edges = [0.0]
    for index in range(len(rows)):
        edges.append(edges[-1] + (1.5 if index in starts else 1.0))
    middles = [(above + below) / 2 for above, below in itertools.pairwise(edges)]
    figure = go.Figure()
    series = dict(sorted(series.items(), key=lambda entry: (not entry[0].startswith("default"), entry[0])))
    for place, (name, entries) in enumerate(series.items()):
        # Baselines of one row stand beside each other, not on top of each other.
        shift = (place - (len(series) - 1) / 2) * min(0.3, 0.8 / len(series))
        values = [contest["ratio"] for _, contest in entries]
        figure.add_trace(
            go.Scatter(
                x=values,
                y=[middles[index] + shift for index, _ in entries],
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [_ends(contest)[1] - contest["ratio"] for _, contest in entries],
                    "arrayminus": [contest["ratio"] - _ends(contest)[0] for _, contest in entries],
                    "thickness": 1.5,
                    "width": 4,
                },
                mode="markers",
                name=f"against {name}",
                marker={"color": _COLOURS[place % 8], "symbol": _SYMBOLS[place % 8], "size": 8},
                customdata=[
                    f"{contest['candidate']} against {contest['baseline']}, {contest['stage']}<br>"
                    f"{ratio(contest['ratio'], contest['interval'])}, {contest['comparison']}<br>"
                    f"{duration(contest['candidate_time']['median_ns'])} against "
                    f"{duration(contest['baseline_time']['median_ns'])}"
                    for _, contest in entries
                ],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    ends = [edge for entries in series.values() for _, contest in entries for edge in _ends(contest)]
    low, high = min(*ends, 1.0) / 1.03, max(*ends, 1.0) * 1.03
    figure.update_layout(
        **layout(height=round(90 + 24 * edges[-1])),
        xaxis=ratio_axis(low, high, title="baseline time / candidate time"),
        yaxis=axis(tickvals=middles, ticktext=labels, range=[edges[-1], 0], showgrid=False),
    )
    for index in sorted(starts - {0}):
        figure.add_hline(y=edges[index], line={"color": "var(--rule)", "width": 1})
    figure.add_vline(x=1.0, line={"color": "var(--muted)", "width": 1, "dash": "dot"})
    return figure


def convergence(record: RunRecord, *, by_time: bool) -> go.Figure | None:
    """Every screened ratio, and the best so far, over evaluations or over seconds, for each workload."""
    import plotly.graph_objects as go

    figure = go.Figure()
    ratios: list[float] = []
    for place, workload in enumerate(record.workloads):
        steps = _digest.progress(record, workload)
        if not steps:
            continue
        ratios += [value for _, value, _ in steps]
        colour = _COLOURS[place % 8]
        at = [(one.finished_s or 0.0) if by_time else one.number for one, _, _ in steps]
        texts = []
        for one, value, _ in steps:
            default = record.default_configurations.get(one.implementation)
            texts.append(
                f"#{one.number}, {one.origin}: {ratio(value, one.intervals.get(workload))}<br>"
                f"{configuration(one.configuration, default)}"
            )
        figure.add_trace(
            go.Scatter(
                x=at,
                y=[value for _, value, _ in steps],
                mode="markers",
                marker={"color": colour, "size": 5, "opacity": 0.5, "symbol": _SYMBOLS[place % 8]},
                customdata=texts,
                hovertemplate="%{customdata}<extra></extra>",
                legendgroup=workload,
                showlegend=False,
            )
        )
        figure.add_trace(
            go.Scatter(
                x=at,
                y=[best for _, _, best in steps],
                mode="lines",
                line={"color": colour, "width": 2, "shape": "hv"},
                name=shape(workload),
                legendgroup=workload,
                hoverinfo="skip",
            )
        )
    if not ratios:
        return None
    figure.update_layout(
        **layout(height=320),
        xaxis=axis(title="seconds since the start" if by_time else "evaluation", rangemode="tozero"),
        yaxis=ratio_axis(
            min(*ratios, 1.0) / 1.02, max(*ratios, 1.0) * 1.02, title="default time / candidate time"
        ),
    )
    figure.add_hline(y=1.0, line={"color": "var(--muted)", "width": 1, "dash": "dot"})
    return figure


def roofline(points: list[Attained], ceilings: Ceilings, dtype: str) -> go.Figure | None:
    """FLOP/s over FLOPs a byte: the measured roofs, and what was attained below them."""
    import plotly.graph_objects as go

    memory, compute = _digest.memory_roofs(ceilings), _digest.compute_roofs(ceilings, dtype)
    placed = [point for point in points if point.flops]
    if not placed or not memory:
        return None
    top = max((roof.value for roof in compute), default=None)
    ridge = top / min(roof.value for roof in memory) if top else 1.0
    low = min(*(point.intensity for point in placed), ridge) / 4
    high = max(*(point.intensity for point in placed), ridge) * 4
    figure = go.Figure()
    for roof in memory:
        bend = high if top is None else min(high, top / roof.value)
        figure.add_trace(
            go.Scatter(
                x=[low, bend],
                y=[low * roof.value, bend * roof.value],
                mode="lines+text",
                line={"color": "var(--muted)", "width": 1.2},
                # Under the left end of a line that rises, nothing crosses the text.
                text=[f"{roof.level} {bandwidth(roof.value)}", ""],
                textposition="bottom right",
                textfont={"size": 11, "color": "var(--muted)"},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    for roof in compute:
        figure.add_trace(
            go.Scatter(
                x=[min(roof.value / max(one.value for one in memory), high), high],
                y=[roof.value, roof.value],
                mode="lines+text",
                line={"color": "var(--s4)", "width": 1.5},
                text=["", f"{roof.dtype} {throughput(roof.value, roof.unit)}"],
                textposition="top left",
                textfont={"size": 11, "color": "var(--muted)"},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    for who, (colour, symbol) in _WHO.items():
        mine = [point for point in placed if point.who == who]
        if mine:
            figure.add_trace(
                go.Scatter(
                    x=[point.intensity for point in mine],
                    y=[point.rate for point in mine],
                    mode="markers",
                    name=who,
                    marker={"color": colour, "symbol": symbol, "size": 8},
                    customdata=[
                        f"{who}, {shape(point.workload)}<br>{duration(point.nanoseconds)}, "
                        f"{bandwidth(point.bandwidth)}, {throughput(point.rate)}"
                        for point in mine
                    ],
                    hovertemplate="%{customdata}<extra></extra>",
                )
            )
    rates = [point.rate for point in placed] + [roof.value for roof in compute]
    rates += [low * roof.value for roof in memory]
    bottom, ceiling = min(rates) / 2, max(rates) * 2
    figure.update_layout(
        **layout(height=400),
        xaxis=axis(
            title="FLOP / byte", type="log", range=[math.log10(low), math.log10(high)], **decades(low, high)
        ),
        yaxis=axis(
            title="GFLOP/s",
            type="log",
            range=[math.log10(bottom), math.log10(ceiling)],
            **decades(bottom, ceiling, 1e9),
        ),
    )
    return figure


def attained(points: list[Attained]) -> go.Figure | None:
    """Bandwidth by workload, beside the copy bandwidth of memory."""
    import plotly.graph_objects as go

    if not points:
        return None
    rows = list(dict.fromkeys(point.workload for point in points))
    figure = go.Figure()
    for who, (colour, symbol) in _WHO.items():
        mine = [point for point in points if point.who == who]
        if mine:
            figure.add_trace(
                go.Scatter(
                    x=[point.bandwidth / 1e9 for point in mine],
                    y=[rows.index(point.workload) for point in mine],
                    mode="markers",
                    name=who,
                    marker={"color": colour, "symbol": symbol, "size": 9},
                    customdata=[
                        f"{who}, {shape(point.workload)}<br>"
                        f"{duration(point.nanoseconds)}, {bandwidth(point.bandwidth)}"
                        for point in mine
                    ],
                    hovertemplate="%{customdata}<extra></extra>",
                )
            )
    roof = points[0].ceiling
    reach = [point.bandwidth / 1e9 for point in points] + ([roof.p95 / 1e9] if roof else [])
    figure.update_layout(
        **layout(height=max(220, 110 + _ROW * len(rows))),
        xaxis=axis(title="GB/s, bytes that must move / time, cold caches", range=[0, max(reach) * 1.06]),
        yaxis=axis(
            tickvals=list(range(len(rows))),
            ticktext=[shape(name) for name in rows],
            range=[len(rows) - 0.4, -0.6],
        ),
    )
    if roof is not None:
        figure.add_vrect(
            x0=roof.p05 / 1e9, x1=roof.p95 / 1e9, fillcolor="var(--s4)", opacity=0.15, line={"width": 0}
        )
        figure.add_vline(x=roof.value / 1e9, line={"color": "var(--s4)", "width": 1.5})
        figure.add_trace(
            go.Scatter(
                x=[None],
                y=[None],
                mode="lines",
                line={"color": "var(--s4)", "width": 1.5},
                name=f"DRAM copy {roof.reads_per_write}:1, {roof.threads} threads: {bandwidth(roof.value)}",
            )
        )
    return figure


def effect(values: dict[str, list[float]], bounds: tuple[float, float]) -> go.Figure:
    """Scores of one parameter's values, all on the same scale."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for value, scores in values.items():
        figure.add_trace(
            go.Box(
                x=[value] * len(scores),
                y=scores,
                name=value,
                boxpoints="all",
                jitter=0.4,
                pointpos=0,
                marker={"color": "var(--s0)", "size": 4, "opacity": 0.6},
                line={"color": "var(--s0)", "width": 1},
                fillcolor="rgba(0,0,0,0)",
                showlegend=False,
            )
        )
    figure.update_layout(
        **layout(height=220),
        xaxis=axis(type="category", showgrid=False),
        yaxis=ratio_axis(*bounds),
    )
    figure.add_hline(y=1.0, line={"color": "var(--muted)", "width": 1, "dash": "dot"})
    return figure


def _ends(contest: Mapping[str, Any]) -> tuple[float, float]:
    """The interval, kept to where a logarithmic axis can show it: too few samples give 0 or infinity."""
    low, high = contest["interval"]
    value = contest["ratio"]
    return max(low, value / 20), min(high, value * 20)
