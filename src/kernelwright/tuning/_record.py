"""What a tuning run did: its record, folded from the journal's events, one by one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from kernelwright import settings
from kernelwright.errors import FileFormatError
from kernelwright.errors import UnknownNameError
from kernelwright.files import as_plain
from kernelwright.search import Event
from kernelwright.search import read_journal

JOURNAL = "journal.sqlite"

#: Status of an evaluation that was asked and has no verdict yet.
PENDING = "pending"


@dataclass
class EvaluationRecord:
    """One candidate judged.

    `origin` is default, winner, designed, random or local; `status` a status of the referee, or `pending`.
    `ratios` holds default time / candidate time for each workload name (above one: faster than the default)
    as screened, `intervals` their 95% intervals. `reused` is the number of the evaluation of the same machine
    code whose verdict this one shares. Seconds count from the run's start, pauses between sittings left out.
    `stage` is asked, built, checked or screened: how far it came. `details` say how it was built.
    """

    number: int
    implementation: str
    tier: str
    configuration: dict[str, Any]
    origin: str
    status: str = PENDING
    reason: str = ""
    build_key: str | None = None
    code_key: str | None = None
    reused: int | None = None
    build_s: float | None = None
    started_s: float = 0.0
    finished_s: float | None = None
    ratios: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    stage: str = "asked"
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether it was judged right and has times."""
        return self.status == "passed"

    @property
    def score(self) -> float | None:
        """Geometric mean of the ratios: what the search maximises; None without times."""
        if not self.passed or not self.ratios:
            return None
        return statistics.geometric_mean(self.ratios.values())


@dataclass
class WorkloadResult:
    """How the run ended for one workload.

    `outcome` is a sentence; `origin` says what stands: new, stored or default. `winner` is the configuration
    that is proven faster than the default, new or stored earlier; None when the default stands. `contests`
    are contests of the referee as dicts (`candidate`, `baseline`, `mode`, `regime`, `comparison`, `ratio`,
    `interval`, `candidate_time`, …), each with a `stage`: `final` (a race among finalists) or `confirmed` (in
    a fresh process on fresh data).
    `cost` has bytes_read, bytes_written and flops of one call. `evidence` is what a stored winner carries.
    """

    workload: str
    bucket: str
    winner: dict[str, Any] | None
    outcome: str
    origin: str = "default"
    number: int | None = None
    implementation: str | None = None
    comparison: str | None = None
    contests: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, int] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    stored: bool = False

    def contest(
        self, baseline: str, *, mode: str = "cold", regime: str = "preallocated"
    ) -> dict[str, Any] | None:
        """The confirmed contest against `baseline` (`default`, `torch`, `stored winner`), if it was held."""
        wanted = {"baseline": baseline, "mode": mode, "regime": regime, "stage": "confirmed"}
        held = [one for one in self.contests if all(one.get(name) == value for name, value in wanted.items())]
        return held[-1] if held else None


@dataclass
class RunRecord:
    """A tuning run, finished or not."""

    id: str
    folder: Path
    operator: str
    created: float
    seed: int
    budget_s: float
    dtype: str
    backends: list[str]
    machine: dict[str, Any]
    versions: dict[str, str]
    workloads: list[str]
    default_configurations: dict[str, dict[str, Any]] = field(default_factory=dict)
    stored: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    space_key: str = ""
    evaluations: list[EvaluationRecord] = field(default_factory=list)
    repeats: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    finals: dict[str, dict[str, Any]] = field(default_factory=dict)
    confirmations: list[dict[str, Any]] = field(default_factory=list)
    peers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    results: list[WorkloadResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0
    sittings: int = 1
    finished: bool = False

    @property
    def artifacts(self) -> int:
        """Distinct machine codes that were judged."""
        return len({one.code_key for one in self.evaluations if one.code_key and one.status != PENDING})

    @property
    def failures(self) -> dict[str, int]:
        """How many evaluations ended in each status other than passed."""
        counts: dict[str, int] = {}
        for one in self.evaluations:
            if one.status not in ("passed", PENDING):
                counts[one.status] = counts.get(one.status, 0) + 1
        return dict(sorted(counts.items()))

    def best(self, workload: str | None = None) -> EvaluationRecord | None:
        """The evaluation with the best screened ratio on one workload, or on all of them."""
        scored = []
        for one in self.evaluations:
            value = one.score if workload is None else one.ratios.get(workload)
            if one.passed and value is not None:
                scored.append((value, -one.number, one))
        return max(scored, key=lambda entry: entry[:2])[2] if scored else None

    def apply(self, event: Event) -> None:
        """Fold one event of the journal in. A run's state is exactly the fold of its journal."""
        body = event.body
        self.elapsed_s = max(self.elapsed_s, float(body.get("t", 0.0)))
        match event.kind:
            case "asked":
                self.evaluations.append(
                    EvaluationRecord(
                        number=body["number"],
                        implementation=body["implementation"],
                        tier=body["tier"],
                        configuration=dict(body["configuration"]),
                        origin=body["origin"],
                        started_s=body["t"],
                    )
                )
            case "built":
                one = self.evaluations[body["number"] - 1]
                one.build_key, one.code_key = body["build_key"], body["code_key"]
                one.build_s, one.stage, one.details = body["build_s"], "built", dict(body["details"])
            case "verdict":
                one = self.evaluations[body["number"] - 1]
                one.status, one.reason = body["status"], body["reason"]
                one.reused, one.stage = body["reused"], body["stage"]
                one.ratios = dict(body["ratios"])
                one.intervals = {name: (low, high) for name, (low, high) in body["intervals"].items()}
                one.finished_s = body["t"]
            case "repeat":
                self.repeats.setdefault(body["workload"], []).append(dict(body))
            case "final":
                self.finals[body["workload"]] = dict(body)
            case "confirmed":
                self.confirmations.append(dict(body))
            case "peers":
                self.peers[body["workload"]] = list(body["contests"])
                for result in self.results:
                    if result.workload == body["workload"]:
                        result.contests += body["contests"]
            case "result":
                known = {name: body[name] for name in WorkloadResult.__dataclass_fields__ if name in body}
                self.results.append(WorkloadResult(**known))
            case "stored":
                for result in self.results:
                    if result.bucket == body["bucket"] and result.workload == body["workload"]:
                        result.stored = True
            case "note":
                self.notes.append(body["text"])
            case "resumed":
                self.sittings += 1
            case "finished":
                self.finished = True


def begin(folder: Path, event: Event) -> RunRecord:
    """The record of a run whose first event this is. Raises FileFormatError when it is not a run's."""
    if event.kind != "started":
        raise FileFormatError(folder / JOURNAL, f"not a tuning run: it begins with {event.kind!r}")
    body = event.body
    return RunRecord(
        id=folder.name,
        folder=folder,
        operator=body["operator"],
        created=event.at,
        seed=body["seed"],
        budget_s=body["budget_s"],
        dtype=body["dtype"],
        backends=list(body["backends"]),
        machine=dict(body["machine"]),
        versions=dict(body["versions"]),
        workloads=list(body["workloads"]),
        default_configurations={name: dict(one) for name, one in body["defaults"].items()},
        stored={bucket: (name, dict(one)) for bucket, (name, one) in body["stored"].items()},
        space_key=body["space_key"],
    )


def fold(folder: Path, events: Sequence[Event]) -> RunRecord:
    """The record that these events make. Raises FileFormatError when there is none."""
    if not events:
        raise FileFormatError(folder / JOURNAL, "the journal holds no event")
    record = begin(folder, events[0])
    for event in events[1:]:
        record.apply(event)
    return record


def load_run(folder: Path) -> RunRecord:
    """Read a run, also while it is going on; changes nothing.

    Raises UnknownNameError naming the runs there are, FileFormatError when the journal is broken.
    """
    if not (folder / JOURNAL).exists():
        raise UnknownNameError("run", folder.name, run_ids(folder.parent))
    return fold(folder, read_journal(folder / JOURNAL))


def run_ids(runs: Path | None = None) -> list[str]:
    """The runs there are, oldest first."""
    runs = runs or settings.runs_dir()
    if not runs.is_dir():
        return []
    # A folder that begins with a dot is a run that is only just being made.
    named = (entry.name for entry in runs.iterdir() if (entry / JOURNAL).exists())
    return sorted(name for name in named if not name.startswith("."))


def contest_dict(contest: Any, stage: str) -> dict[str, Any]:
    """A contest of the referee as plain values, with the stage it was held in."""
    return {**as_plain(contest, finite=False), "stage": stage}
