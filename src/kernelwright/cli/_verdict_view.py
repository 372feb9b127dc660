"""A verdict on one screen: what was compared and how, what came of it, and what could not be checked."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.referee import Contest
    from kernelwright.referee import Verdict

#: Columns of what is not a terminal.
_FILE_WIDTH = 120
#: Longer lists are in the JSON.
_MOST_LINES = 12
_MEANING = {
    "cold": "its data are in no cache when a call begins",
    "warm": "its data are in the caches as far as they fit",
    "allocating": "each call allocates its output",
    "preallocated": "the output's memory is given",
}


def make_console(*, stderr: bool = False) -> Console:
    """A console that prints plainly where it is no terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=_FILE_WIDTH, color_system=None)
    return console


def show_verdict(console: Console, title: str, verdict: Verdict) -> None:
    """Print a verdict on a kernel."""
    from kernelwright import report as form

    console.print(title, style="bold", markup=False, soft_wrap=True)
    console.print(f"  {form.styled(verdict.status.value)}", end=": ")
    console.print(verdict.reason, markup=False, soft_wrap=True)
    for contest in verdict.contests:
        console.print(_contest_line(contest), soft_wrap=True)
    meant = dict.fromkeys(
        word for contest in verdict.contests for word in (contest.mode.value, contest.regime.value)
    )
    for word in meant:
        _say(console, word, _MEANING[word])
    for label, text in _circumstances(verdict):
        _say(console, label, text)


def _contest_line(contest: Contest) -> str:
    from rich.markup import escape

    from kernelwright import report as form

    return (
        f"  {form.styled(contest.comparison.value)}: "
        + escape(f"{form.ratio(contest.ratio, contest.interval)} ")
        + escape(f"{contest.workload} {contest.mode.value} {contest.regime.value}; ")
        + f"{form.duration(contest.candidate_time.median_ns)} against "
        + f"{form.duration(contest.baseline_time.median_ns)}, {contest.blocks} rounds"
    )


def _circumstances(verdict: Verdict) -> list[tuple[str, str]]:
    """Labels and texts of what else a reader has to know."""
    evidence = verdict.evidence
    lines = [("not checked", text) for text in _listed(evidence.get("not_checked"))]
    refused = _listed(evidence.get("refused"))
    if refused:
        lines.append(("refused", f"{len(refused)} layouts or sizes, by an exception: {'; '.join(refused)}"))
    lines += [("note", text) for text in _listed(evidence.get("notes"))]
    lines += _guard_lines(evidence.get("guards"))
    if verdict.contests:
        conditions = [contest.conditions for contest in verdict.contests]
        line = _machine_line(conditions)
        if line:
            lines.append(("machine", line))
    if "seed" in evidence:
        lines.append(("seed", str(evidence["seed"])))
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], ("…", f"{left} more lines; --json has all of them")]
    return lines


def _guard_lines(guards: object) -> list[tuple[str, str]]:
    """The guards that were active in one line, each one that was missing in a line of its own."""
    if not isinstance(guards, Mapping):
        return []
    told = {str(name).replace("_", " "): "" if why == "active" else str(why) for name, why in guards.items()}
    active = [name for name, why in told.items() if not why]
    lines = [("guards", ", ".join(active))] if active else []
    return lines + [("no guard", f"{name}: {why}") for name, why in told.items() if why]


def _machine_line(conditions: Sequence[Mapping[str, Any]]) -> str:
    from kernelwright import report as form

    parts = []
    loads = [one["load_before"] for one in conditions if one.get("load_before") is not None]
    if loads:
        parts.append(f"load average {max(loads):.2f}")
    steals = [one["steal"] for one in conditions if one.get("steal") is not None]
    parts.append(f"steal {form.percent(max(steals)) if steals else form.NOT_KNOWN}")
    threads = {one["threads"] for one in conditions if one.get("threads") is not None}
    if threads:
        parts.append(f"{max(threads)} threads")
    throttled = [one["throttled"] for one in conditions if one.get("throttled")]
    if throttled:
        parts.append(f"throttled {sum(throttled)} times")
    return ", ".join(parts) if conditions else ""


def _listed(value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}: {text}" if text else str(name) for name, text in value.items()]
    if isinstance(value, (list, tuple)):
        return [str(one) for one in value]
    return [str(value)] if value else []


def _say(console: Console, label: str, text: str) -> None:
    console.print(f"  {label}: {text}", markup=False, soft_wrap=True)
