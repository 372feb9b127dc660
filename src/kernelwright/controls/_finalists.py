"""Finalists of a search and what the referee says of them together."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright import machine
from kernelwright.errors import FileFormatError
from kernelwright.referee import Comparison
from kernelwright.referee import Status
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import holm
from kernelwright.referee._statistics import judge_all
from kernelwright.search import Evaluation
from kernelwright.search import SearchResult

SCHEMA = "kernelwright.validation"
VERSION = 1
BASELINE = "baseline"


@dataclass(frozen=True)
class Candidate:
    """What is to be judged again: `config` as an objective gets it, `scores` what the search saw.

    `number` is its evaluation in the run, None where it comes from elsewhere.
    """

    name: str
    config: Any
    number: int | None = None
    scores: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Finalist:
    """A candidate and the verdict on it.

    `status` and `comparison` are the referee's words; there is a comparison, a ratio (above one: better than
    the baseline) and its 95% interval where the status is `passed` and something was measured. `shares` names
    who has the same binary, `baseline` or another finalist: then its verdict is that one's. `p` is the
    p-value adjusted for the number of finalists (Holm). `contests` are the referee's, as plain values.
    """

    name: str
    config: Any
    status: Status
    reason: str = ""
    comparison: Comparison | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    number: int | None = None
    scores: tuple[float, ...] | None = None
    code_key: str | None = None
    shares: str | None = None
    contests: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Validation:
    """What came of judging finalists again.

    `target` is what was judged, `baseline` what against, `provenance` what the verdicts hold for, `machine`
    the machine's fingerprint, `created` UTC. `description` is the target's, as the run has it; `run` its id.
    `minimized` and `explained` are there where they were asked for: plain values of the winner alone.
    """

    target: str
    finalists: tuple[Finalist, ...]
    baseline: str = "no controls"
    provenance: Mapping[str, str] = field(default_factory=dict)
    machine: str = field(default_factory=machine.fingerprint)
    created: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    run: str = ""
    description: Mapping[str, Any] = field(default_factory=dict)
    minimized: Mapping[str, Any] | None = None
    explained: Mapping[str, Any] | None = None

    @property
    def winners(self) -> tuple[Finalist, ...]:
        """Those that are proven better than the baseline, the greatest ratio first; one for each binary."""
        won = [one for one in self.finalists if one.comparison is Comparison.FASTER and one.shares is None]
        return tuple(sorted(won, key=lambda one: -(one.ratio or 0.0)))

    @property
    def winner(self) -> Finalist | None:
        """The first of `winners`; None: no improvement."""
        return self.winners[0] if self.winners else None

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        count = len(self.finalists)
        judged = f"{count} finalist{'' if count == 1 else 's'}"
        if self.winner is None:
            return f"no improvement: none of {judged} is proven better than {self.baseline}"
        return f"{self.winner.name} is better than {self.baseline}: {ratio_text(self.winner)}, of {judged}"

    def save(self, path: Path | str) -> Path:
        """Write it as JSON that `load` reads."""
        files.write_json(Path(path), SCHEMA, VERSION, files.as_plain(self))
        return Path(path)

    @classmethod
    def load(cls, path: Path | str) -> Validation:
        """Read what `save` wrote. Raises FileNotFoundError, FileFormatError."""
        document = files.read_json(Path(path), SCHEMA, VERSION)
        try:
            finalists = tuple(_finalist(one) for one in document["finalists"])
            known = {
                one.name: document[one.name]
                for one in fields(cls)
                if one.name in document and one.name != "finalists"
            }
            return cls(finalists=finalists, **known)
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(Path(path), f"it is no validation ({error!r})") from error


#: Hears of each finalist as its verdict falls; comparisons of several may be withdrawn at the end (Holm).
OnFinalist = Callable[[Finalist], None]


def choose_finalists(result: SearchResult, *, top: int = 3, pareto: bool = False) -> list[Candidate]:
    """The best `top` candidates of a search, or its Pareto front; of those with one binary, the first.

    Raises NoScoreError when no candidate has a score.
    """
    result.best()
    chosen: dict[Any, Candidate] = {}
    for one in result.front if pareto else result.ranked:
        identity = (one.metadata.get("features") or {}).get("identity", one.number)
        if identity not in chosen and (pareto or len(chosen) < top):
            chosen[identity] = candidate_of(one)
    return list(chosen.values())


def candidate_of(evaluation: Evaluation) -> Candidate:
    """An evaluation of a search as a candidate."""
    return Candidate(f"#{evaluation.number}", evaluation.params, evaluation.number, evaluation.scores)


def ratio_text(finalist: Finalist) -> str:
    """Ratio and interval, for a person."""
    if finalist.ratio is None or finalist.interval is None:
        return "not measured"
    low, high = finalist.interval
    return f"{finalist.ratio:.3f} × [{low:.3f}, {high:.3f}]"


def judge_together(finalists: Sequence[Finalist], estimates: Mapping[str, Estimate]) -> list[Finalist]:
    """The finalists with comparisons that hold for all of them at once, by Holm's procedure.

    `estimates` are those of the finalists that were measured. Who shares a binary shares the verdict, and
    does not count again.
    """
    comparisons = judge_all(estimates)
    adjusted = dict(zip(estimates, holm([one.p_value for one in estimates.values()]), strict=True))
    judged: dict[str, Finalist] = {}
    for one in finalists:
        if one.name in estimates:
            found = estimates[one.name]
            one = replace(
                one,
                comparison=comparisons[one.name],
                ratio=found.ratio,
                interval=found.interval,
                p=adjusted[one.name],
            )
        judged[one.name] = one
    for one in finalists:
        leader = judged.get(one.shares or "")
        if leader is not None:
            judged[one.name] = replace(
                judged[one.name],
                **{
                    name: getattr(leader, name)
                    for name in ("status", "reason", "comparison", "ratio", "interval", "p")
                },
            )
    return [judged[one.name] for one in finalists]


def with_student_p(ratio: float, interval: tuple[float, float], processes: int) -> Estimate:
    """The estimate behind a contest over several pairs of processes, which says no p-value.

    Its interval is Student's or a wider one, so that the p-value that follows from it is not too small.
    """
    if processes < 2:
        return Estimate(ratio, interval, None, processes)
    from scipy.stats import t

    low, high = interval
    near = low if ratio >= 1.0 else high
    if ratio == 1.0 or not 0.0 < near < math.inf or near == ratio:
        return Estimate(ratio, interval, 1.0 if near != ratio or ratio == 1.0 else 0.0, processes)
    error = abs(math.log(ratio / near)) / float(t.ppf(0.975, processes - 1))
    p = 2.0 * float(t.sf(abs(math.log(ratio)) / error, processes - 1))
    return Estimate(ratio, interval, p, processes)


def _finalist(document: Mapping[str, Any]) -> Finalist:
    made = {one.name: document[one.name] for one in fields(Finalist)}
    made["status"] = Status(made["status"])
    if made["comparison"] is not None:
        made["comparison"] = Comparison(made["comparison"])
    for name in ("interval", "scores", "contests"):
        if made[name] is not None:
            made[name] = tuple(made[name])
    return Finalist(**made)
