"""Axes and layout that all plots share. Colours name CSS variables of the page."""

from __future__ import annotations

import math
from typing import Any


def layout(height: int) -> dict[str, Any]:
    """The layout of every plot: no background, the legend above."""
    return {
        "template": "none",
        "height": height,
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {
            "family": "system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif",
            "size": 12,
            "color": "var(--ink)",
        },
        "margin": {"l": 8, "r": 14, "t": 12, "b": 8},
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        "hoverlabel": {
            "bgcolor": "var(--raised)",
            "bordercolor": "var(--rule)",
            "font": {"color": "var(--ink)"},
        },
        "hovermode": "closest",
    }


def axis(**extra: Any) -> dict[str, Any]:
    """An axis that makes room for its labels; `extra` as plotly takes it, the title as text."""
    title = extra.pop("title", None)
    made = {
        "automargin": True,
        "gridcolor": "var(--grid)",
        "linecolor": "var(--rule)",
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 3,
        "tickcolor": "var(--rule)",
        **extra,
    }
    if title:
        made["title"] = {"text": title, "font": {"color": "var(--muted)"}, "standoff": 8}
    return made


def ratio_axis(low: float, high: float, **extra: Any) -> dict[str, Any]:
    """An axis of ratios: twice as fast is as far from one as half as fast."""
    ticks = ratio_ticks(low, high)
    return axis(
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=ticks,
        ticktext=[f"{tick:g}×" for tick in ticks],
        **extra,
    )


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between two ends around one: fine steps for a narrow range, decades for a wide one."""
    span = high / low
    if span > 4:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
        ticks = [digit * 10.0**power for power in powers for digit in ((1, 2, 5) if span < 200 else (1,))]
        return [tick for tick in ticks if low <= tick <= high]
    step = (
        0.01 if span < 1.08 else 0.02 if span < 1.16 else 0.05 if span < 1.4 else 0.1 if span < 1.9 else 0.25
    )
    first, last = round(low / step), round(high / step)
    return [round(number * step, 2) for number in range(first, last + 1) if low <= number * step <= high]


def decades(low: float, high: float, unit: float = 1.0) -> dict[str, Any]:
    """Ticks at 1, 2 and 5 of each decade between the ends, labelled in `unit`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return {"tickvals": ticks, "ticktext": [f"{tick / unit:g}" for tick in ticks]}
