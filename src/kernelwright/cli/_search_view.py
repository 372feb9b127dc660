"""What a person sees of a search: its best, its front, its failures, what mattered."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from kernelwright.report import configuration
from kernelwright.report import elapsed
from kernelwright.report import NOT_KNOWN
from kernelwright.report import table

if TYPE_CHECKING:
    from rich.table import Table

    from kernelwright.search import Evaluation
    from kernelwright.search import Finding
    from kernelwright.search import Importances
    from kernelwright.search import Minimized
    from kernelwright.search import SearchResult

#: Columns of what is not a terminal: the tables fit.
_PIPE_WIDTH = 120
#: A compiler has hundreds of settings: `show --number` and `--json` have them all.
_SETTINGS = 12
_LONGEST = 300
_SEVERITIES = {"error": "red", "warning": "yellow", "note": "default"}


def make_console() -> Console:
    """Standard output as rich has it."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def facts(result: SearchResult, top: int = 5) -> dict[str, Any]:
    """The result as what JSON knows."""
    from kernelwright.files import as_plain

    info = result.info
    found: dict[str, Any] = {
        "run": getattr(info, "id", None),
        "finished": getattr(info, "finished", None),
        "settings": getattr(info, "settings", None),
        "evaluations": len(result),
        "candidates": len(result.candidates),
        "failures": result.failures,
        "best": result.get_best_result() if result.ranked else None,
        "top": result.top_k(top) if result.ranked else [],
    }
    if result.num_objectives > 1:
        found["pareto"] = result.pareto_front()
        found["hypervolume"] = result.hypervolume()
    plain: dict[str, Any] = as_plain(found)
    return plain


def show_summary(console: Console, result: SearchResult, top: int = 5) -> None:
    """A line of what it was, the best few, failures by cause."""
    for line in _heading(result):
        console.print(line, soft_wrap=True, markup=False)
    if result.ranked:
        console.print(results_table(result, result.ranked[:top]))
    failures = ", ".join(f"{count} {kind}" for kind, count in result.failures.items()) or "none"
    spent = sum(one.seconds for one in result.evaluations)
    console.print(
        f"{len(result)} evaluations, {len(result.candidates)} candidates with a score; failures: {failures}; "
        f"{elapsed(spent)} in the objective",
        soft_wrap=True,
        markup=False,
    )


def results_table(result: SearchResult, shown: Sequence[Evaluation], title: str | None = None) -> Table:
    """One row an evaluation: number, scores, normalised scores, what was chosen."""
    count = result.num_objectives
    names = ["score"] if count == 1 else [f"score {place + 1}" for place in range(count)]
    normal = any(one.normalised is not None for one in shown)
    heads = [f">{name}" for name in names] + ([f">norm. {name}" for name in names] if normal else [])
    made = table(title, ">#", *heads, ">generation", "params")
    for one in shown:
        cells = [_score(one.scores, place) for place in range(count)]
        if normal:
            cells += [_score(one.normalised, place) for place in range(count)]
        made.add_row(str(one.number), *cells, str(one.generation), escape(chosen(one)))
    return made


def chosen(evaluation: Evaluation) -> str:
    """The configuration in one line, without what was left out; of a long one, its first settings."""
    if evaluation.baseline:
        return "baseline"
    kept = {name: value for name, value in evaluation.configuration.items() if value is not None}
    if not kept:
        return "everything left out"
    shown = configuration(dict(list(kept.items())[:_SETTINGS]))
    left = len(kept) - _SETTINGS
    return shown if left <= 0 else f"{shown} … and {left} more"


def show_failures(console: Console, result: SearchResult, limit: int) -> None:
    """The failed evaluations with their reasons and the last lines that each wrote."""
    for one in result.failed[:limit]:
        failure = one.failure
        kind, reason = (failure.kind, failure.reason) if failure else ("", "")
        console.print(f"#{one.number} {kind}: {chosen(one)}", soft_wrap=True, markup=False)
        for line in [*reason.strip().splitlines(), *one.stderr.strip().splitlines()[-8:]]:
            console.print(f"    {line}", soft_wrap=True, markup=False)
    if len(result.failed) > limit:
        console.print(f"… and {len(result.failed) - limit} more", soft_wrap=True, markup=False)
    if not result.failed:
        console.print("nothing failed")


def show_evaluation(console: Console, result: SearchResult, one: Evaluation) -> None:
    """All that is known of one evaluation."""
    rows: list[tuple[str, str]] = [
        ("number", str(one.number)),
        ("params", str(one.params)),
        ("settings", configuration({k: v for k, v in one.configuration.items() if v is not None})),
        ("scores", ", ".join(f"{score!r}" for score in one.scores) if one.scores else NOT_KNOWN),
    ]
    if one.normalised:
        rows.append(("normalised", ", ".join(f"{score:.6g}" for score in one.normalised)))
    if one.failure:
        rows.append(("failure", f"{one.failure.kind}: {one.failure.reason}"))
    rows += [
        ("origin", one.origin or NOT_KNOWN),
        ("generation", str(one.generation)),
        ("took", elapsed(one.seconds)),
        ("worker", one.worker or NOT_KNOWN),
    ]
    rows += [(str(name), str(value)) for name, value in one.metadata.items()]
    for name, value in rows:
        console.print(f"{name:12} {value}", soft_wrap=True, markup=False)
    if one.stderr:
        console.print(one.stderr.rstrip(), soft_wrap=True, markup=False)


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """What was found, and what to do, one paragraph each."""
    for one in findings:
        console.print(f"[{_SEVERITIES[one.severity]}]{one.severity}[/] {escape(one.text)}", soft_wrap=True)
        console.print(f"  → {one.remedy}", soft_wrap=True, markup=False)
    if not findings:
        console.print("nothing wrong was found")


def show_importances(console: Console, found: Importances) -> None:
    """One row a parameter."""
    made = table(
        None, "parameter", ">share", ">95% interval", ">p", "", "best value", ">effect", ">scored", ">median"
    )
    for one in found.parameters:
        low, high = one.interval
        made.add_row(
            escape(one.parameter),
            f"{one.share:.1%}",
            f"{low:.1%} … {high:.1%}",
            f"{one.p:.3f}",
            "matters" if one.matters else "not proven",
            escape(one.best.name),
            f"{one.best.effect:+.1%}",
            str(one.best.count),
            f"{one.best.median:.6g}",
        )
    console.print(made)
    console.print(
        f"share of the variance of the ranks of {found.evaluations} scored candidates; {found.rest:.1%} is "
        "what parameters only do together, and noise; effect: on the rank, others being equal",
        soft_wrap=True,
    )


def show_minimized(console: Console, found: Minimized) -> None:
    """What is left of the winner, and what it is worth."""
    if not found.won:
        console.print(
            f"there is no win to keep: measured again, the candidate is not proven better than the reference "
            f"({found.evaluations} evaluations)",
            soft_wrap=True,
        )
        return
    share = NOT_KNOWN if found.share is None else f"{found.share:.1%}"
    if found.share is not None and found.interval is not None:
        share += f" [{found.interval[0]:.1%}, {found.interval[1]:.1%}]"
    console.print(f"{len(found.settings)} settings keep {share} of the win of {found.win:.6g}:", markup=False)
    for name, value in found.settings.items():
        console.print(f"  {name} = {value}", soft_wrap=True, markup=False)
    dropped = ", ".join(found.dropped) or "nothing"
    console.print(f"not needed: {_shortened(dropped)}", soft_wrap=True, markup=False)
    if not found.complete:
        console.print("the budget ended first: more could perhaps be dropped")
    params = _shortened(str(found.params))
    console.print(f"{found.evaluations} evaluations; params: {params}", soft_wrap=True, markup=False)


def _heading(result: SearchResult) -> list[str]:
    info = result.info
    if info is None:
        return []
    settings: Mapping[str, Any] = info.settings
    begun = datetime.datetime.fromtimestamp(info.created_at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    most = settings.get("max_evaluations")
    budget = f"up to {most} evaluations" if most else "as long as it lasts"
    state = "finished" if info.finished else "not finished"
    what = (
        f"{settings.get('objective', 'objective')}, {settings.get('optimizer')}, seed {settings.get('seed')}"
    )
    return [f"run {info.id}: {what}, {budget}; begun {begun}; {state}"]


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … (--json has all)"


def _score(scores: Sequence[float] | None, place: int) -> str:
    return NOT_KNOWN if scores is None else f"{scores[place]:.6g}"
