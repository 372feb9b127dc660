"""What `check` and `bench` share: exit codes, and the one JSON object that sums up a judgement."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Mapping
from collections.abc import Sequence
from types import TracebackType
from typing import Any
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kernelwright.referee import Contest
    from kernelwright.referee import Verdict

EXIT_NO = 1
"""Judged, and the answer is no: not passed, or slower."""
EXIT_USAGE = 2
"""The command line, or a file that it names, makes no sense."""
EXIT_HARNESS = 3
"""The harness itself could not run: nothing is said about the kernel."""

KEYS = ("status", "reason", "comparison", "ratio", "interval", "times", "evidence")
"""The keys that every JSON object of `check` and `bench` has, at its top."""


class answering:  # noqa: N801
    """Turns what goes wrong around a judgement into a text on stderr, an exit code, and JSON where asked.

    Bad usage is 2. All else is 3, also a fault of this program: 1 is what a verdict says.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from kernelwright.errors import BackendUnavailableError
        from kernelwright.errors import KernelwrightError
        from kernelwright.errors import UnknownNameError
        from kernelwright.errors import UsageError

        if not isinstance(error, Exception) or isinstance(error, (typer.Exit, typer.Abort)):
            return
        if isinstance(error, (UsageError, UnknownNameError, BackendUnavailableError)):
            code, reason = EXIT_USAGE, str(error)
            typer.echo(f"error: {reason}", err=True)
        elif isinstance(error, KernelwrightError):
            code, reason = EXIT_HARNESS, str(error)
            typer.echo(f"error: nothing was judged: {reason}", err=True)
        else:
            code, reason = EXIT_HARNESS, f"{type(error).__name__}: {error}"
            typer.echo("".join(traceback.format_exception(error)), err=True)
            typer.echo("error: nothing was judged; the fault is in kernelwright itself", err=True)
        if self._as_json:
            print_json({**dict.fromkeys(KEYS), "reason": reason, "evidence": {"exit_code": code}})
        raise typer.Exit(code) from error


def print_json(document: Mapping[str, Any]) -> None:
    """Print the object, strictly JSON: what is not finite is null."""
    from kernelwright.files import as_plain

    typer.echo(json.dumps(as_plain(document), indent=1, allow_nan=False))


def summary(verdict: Verdict) -> dict[str, Any]:
    """A verdict as the top of the object; each contest, with its conditions, is one of its `rows`."""
    found: dict[str, Any] = {
        "status": verdict.status.value,
        "reason": verdict.reason,
        **headline(verdict.contests),
        "evidence": verdict.evidence,
    }
    if verdict.contests:
        found["rows"] = [contest_row(contest) for contest in verdict.contests]
    return found


def contest_row(contest: Contest) -> dict[str, Any]:
    """One contest as a row."""
    return {
        "workload": contest.workload,
        "mode": contest.mode.value,
        "regime": contest.regime.value,
        **headline([contest]),
        "rounds": contest.blocks,
        "conditions": contest.conditions,
    }


def headline(contests: Sequence[Contest]) -> dict[str, Any]:
    """Comparison, ratio, interval and times of several contests as one.

    Slower if any is; else ambiguous if any is; else faster if any is, else the same. The ratio is the
    geometric mean, and its interval the geometric means of the ends: wider than that of the mean. Times are
    nanoseconds of a call, of candidate and baseline; of several contests, by the name of each.
    """
    if not contests:
        return {"comparison": None, "ratio": None, "interval": None, "times": None}
    words = [contest.comparison.value for contest in contests]
    times = {contest_name(contest): _times(contest) for contest in contests}
    return {
        "comparison": overall(words),
        "ratio": mean([contest.ratio for contest in contests]),
        "interval": [mean([contest.interval[end] for contest in contests]) for end in (0, 1)],
        "times": times if len(contests) > 1 else next(iter(times.values())),
    }


def overall(comparisons: Sequence[str]) -> str | None:
    """The comparison that stands for several: the first of slower, ambiguous, faster, same that is there."""
    return next((word for word in ("slower", "ambiguous", "faster", "same") if word in comparisons), None)


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean; zero and infinity stay what they are."""
    if 0 in ratios:
        return 0.0
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def contest_name(contest: Contest) -> str:
    """Workload, mode and regime in one."""
    return f"{contest.workload} {contest.mode.value} {contest.regime.value}"


def _times(contest: Contest) -> dict[str, Any]:
    return {"candidate": contest.candidate_time, "baseline": contest.baseline_time}
