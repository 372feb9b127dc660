"""The plots of a search as one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

from kernelwright import files
from kernelwright.errors import UsageError
from kernelwright.report._write import script_json

if TYPE_CHECKING:
    from kernelwright.search import SearchResult

KINDS = ("convergence", "parallel", "pareto")
_CAPTIONS = {
    "convergence": "Scores of candidates in the order in which they were asked, and the best so far; crosses "
    "failed; dotted: the baseline.",
    "parallel": "One line a candidate, through the values it has, to its score; the best tenth stands out.",
    "pareto": "Candidates in two objectives; no candidate beats one of the front in all objectives.",
}


def kinds_of(result: SearchResult) -> tuple[str, ...]:
    """The plots that this search has."""
    return KINDS if result.num_objectives > 1 else KINDS[:2]


def plot(
    result: SearchResult,
    path: Path,
    kinds: Sequence[str] = (),
    *,
    objective: int = 0,
    x: int = 0,
    y: int = 1,
) -> list[Path]:
    """Write plots: all that the search has, or these `kinds`; the files written.

    By the path's ending: `.html` is one page of them all; `.png` one picture each (matplotlib), named
    `NAME-KIND.png` where there are several. Raises UsageError for another ending or kind, NoScoreError where
    nothing has a score.
    """
    wanted = tuple(kinds) or kinds_of(result)
    for kind in wanted:
        if kind not in KINDS:
            raise UsageError(f"plots are {', '.join(KINDS)}; got {kind!r}")
    if path.suffix == ".html":
        files.write_atomic(path, page(result, wanted, objective=objective, x=x, y=y))
        return [path]
    if path.suffix == ".png":
        from kernelwright.report._search_png import png

        written = []
        for kind in wanted:
            target = path if len(wanted) == 1 else path.with_stem(f"{path.stem}-{kind}")
            files.write_atomic(target, png(result, kind, objective=objective, x=x, y=y))
            written.append(target)
        return written
    raise UsageError(f"a plot is written to a file that ends in .html or .png; got {path.name!r}")


def page(result: SearchResult, kinds: Sequence[str], *, objective: int = 0, x: int = 0, y: int = 1) -> str:
    """The page: what the search was, its best, and the plots."""
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from kernelwright.report import _search_digest as digest
    from kernelwright.report import _search_figures as figures

    drawn: list[tuple[str, str, Any]] = []
    for kind in kinds:
        if kind == "pareto":
            figure = figures.pareto(result, x, y)
        else:
            figure = getattr(figures, kind)(result, objective)
        drawn.append((kind, _CAPTIONS[kind], figure))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernelwright.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    best = result.ranked[0] if result.ranked else None
    return environment.get_template("search.html.j2").render(
        run=getattr(result.info, "id", "") or "a search",
        what=dict(getattr(result.info, "settings", None) or {}),
        evaluations=len(result),
        candidates=len(result.candidates),
        failures=result.failures,
        best=None if best is None else digest.text(best, result.values(best)).partition("<br>"),
        plots=drawn,
        plot_data=lambda figure: Markup(script_json(figure)),
        plotly_js=Markup(get_plotlyjs().replace("</script", "<\\/script")),
    )
