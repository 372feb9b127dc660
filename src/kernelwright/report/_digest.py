"""What a run comes to: the record, regrouped into what the page shows."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.report._format import configuration
from kernelwright.report._format import plain

if TYPE_CHECKING:
    from kernelwright.machine import Ceiling
    from kernelwright.machine import Ceilings
    from kernelwright.tuning import EvaluationRecord
    from kernelwright.tuning import RunRecord
    from kernelwright.tuning import WorkloadResult

Contest = Mapping[str, Any]

DEFAULT = "default"
#: Names under which torch's own implementation, called without compilation, takes part.
EAGER = ("eager", "torch")
#: Evidence of a winner that the page shows in another place, or that says nothing of the winner.
_SHOWN_ELSEWHERE = frozenset(
    ("contests", "run", "evaluation", "workload", "ratio", "interval", "baseline", "cached")
)
_LEVELS = ("L1", "L2", "L3", "DRAM")


@dataclass(frozen=True)
class VerdictRow:
    """One workload: how it ended, the contest that decided, the one against torch; None where not held."""

    result: WorkloadResult
    standing: str
    against_default: Contest | None
    against_torch: Contest | None


@dataclass(frozen=True)
class WinnerCard:
    """A configuration that won, for which workloads, and where it came from."""

    number: int | None
    implementation: str
    configuration: Mapping[str, Any]
    difference: str
    results: tuple[WorkloadResult, ...]
    evaluation: EvaluationRecord | None
    details: Mapping[str, Any]
    contests: tuple[Contest, ...]


@dataclass(frozen=True)
class FailureGroup:
    """Evaluations that ended in one status."""

    status: str
    evaluations: tuple[EvaluationRecord, ...]


@dataclass(frozen=True)
class Attained:
    """What one implementation reached on one workload, beside the bandwidth that was measured here.

    `ceiling` is the copy bandwidth of memory at the operator's mix of reads and writes; None if not measured.
    """

    workload: str
    who: str
    nanoseconds: float
    bytes: int
    flops: int
    ceiling: Ceiling | None

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that must move."""
        return self.flops / self.bytes

    @property
    def bandwidth(self) -> float:
        """Bytes that must move, a second."""
        return self.bytes / self.nanoseconds * 1e9

    @property
    def rate(self) -> float:
        """FLOPs a second."""
        return self.flops / self.nanoseconds * 1e9

    @property
    def share(self) -> float | None:
        """Bandwidth as a fraction of the ceiling."""
        return None if self.ceiling is None else self.bandwidth / self.ceiling.value


def headline(record: RunRecord) -> str:
    """The run in one sentence."""
    new = sum(result.origin == "new" for result in record.results)
    stored = sum(result.origin == "stored" for result in record.results)
    kept = len(record.results) - new - stored
    undecided = len(record.workloads) - len(record.results)
    parts = []
    if new:
        parts.append(f"a new configuration is proven faster than the default on {_of(new, record)}")
    if stored:
        parts.append(f"the winner stored earlier stands on {_of(stored, record)}")
    if kept:
        parts.append(f"the default stands on {_of(kept, record)}")
    if undecided:
        parts.append(f"not decided: {_of(undecided, record)}")
    text = "; ".join(parts) or "no workload was named"
    return text[0].upper() + text[1:] + "."


def verdicts(record: RunRecord) -> list[VerdictRow]:
    """A row for each decided workload, in the run's order."""
    order = {name: place for place, name in enumerate(record.workloads)}
    rows = []
    for result in sorted(record.results, key=lambda one: order.get(one.workload, len(order))):
        standing = {"new": "new winner", "stored": "stored winner"}.get(result.origin, "default stands")
        rows.append(VerdictRow(result, standing, decisive(result), versus(result, EAGER)))
    return rows


def decisive(result: WorkloadResult) -> Contest | None:
    """The contest with the default that decided: a confirmed one, else the best finalist's; None without."""
    confirmed = versus(result, (DEFAULT,))
    if confirmed is not None:
        return confirmed
    finals = [one for one in result.contests if one["stage"] == "final" and one["baseline"] == DEFAULT]
    return max(finals, key=lambda one: one["ratio"], default=None)


def versus(result: WorkloadResult, baselines: Sequence[str]) -> Contest | None:
    """The contest that counts against one of these baselines, cold and preallocated if that was held.

    Against the default it is the winner's, if there is one. Races among finalists do not count.
    """
    held = [one for one in result.contests if one["stage"] != "final" and one["baseline"] in baselines]
    if result.number is not None and DEFAULT in baselines:
        held = [one for one in held if one["candidate"] == f"#{result.number}"]
    main = [one for one in held if one["mode"] == "cold" and one["regime"] == "preallocated"]
    counted = main or held
    return counted[-1] if counted else None


def shown_contests(result: WorkloadResult) -> list[Contest]:
    """All contests but those of the final, which appear only where nothing was confirmed."""
    later: list[Contest] = [one for one in result.contests if one["stage"] != "final"]
    return later if any(one["baseline"] == DEFAULT for one in later) else list(result.contests)


def winner_cards(record: RunRecord) -> list[WinnerCard]:
    """What won: one card a configuration, the one that won most workloads first."""
    groups: dict[tuple[str, str], list[WorkloadResult]] = {}
    for result in record.results:
        if result.winner is not None:
            key = (result.implementation or "", configuration(result.winner))
            groups.setdefault(key, []).append(result)
    cards = []
    for (implementation, _), results in groups.items():
        winner = results[0].winner or {}
        number = results[0].number
        evaluation = next((one for one in record.evaluations if one.number == number), None)
        evidence = next((result.evidence for result in results if result.evidence), {})
        details = dict(evidence)
        if evaluation is not None:
            built = {"build_key": evaluation.build_key, "code_key": evaluation.code_key, **evaluation.details}
            details = {**{name: value for name, value in built.items() if value is not None}, **details}
        contests = [one for result in results for one in result.contests if one["stage"] != "final"]
        cards.append(
            WinnerCard(
                number,
                implementation,
                winner,
                configuration(winner, record.default_configurations.get(implementation)),
                tuple(results),
                evaluation,
                {name: value for name, value in details.items() if name not in _SHOWN_ELSEWHERE},
                tuple(contests),
            )
        )
    return sorted(cards, key=lambda card: -len(card.results))


def conditions(contests: Iterable[Contest]) -> dict[str, Any]:
    """What the machine did during these contests: the worst that was seen; empty when nothing was noted."""
    seen = [one["conditions"] for one in contests if one.get("conditions")]
    found: dict[str, Any] = {}
    for name in ("load_before", "load_after", "steal"):
        values = [one[name] for one in seen if one.get(name) is not None]
        if values:
            found[name] = max(values)
    for name in ("threads", "affinity"):
        values = sorted({_listed(one[name]) for one in seen if one.get(name) is not None})
        if values:
            found[name] = "; ".join(values)
    return found


def failures(record: RunRecord) -> list[FailureGroup]:
    """What did not pass, by status, the most frequent first."""
    groups: dict[str, list[EvaluationRecord]] = {}
    for one in record.evaluations:
        if one.status not in ("passed", "pending"):
            groups.setdefault(one.status, []).append(one)
    made = [FailureGroup(status, tuple(found)) for status, found in groups.items()]
    return sorted(made, key=lambda group: (-len(group.evaluations), group.status))


def progress(record: RunRecord, workload: str) -> list[tuple[EvaluationRecord, float, float]]:
    """Evaluations with a ratio on this workload in the order of their verdicts, and the best ratio so far."""
    best = 1.0
    steps = []
    timed = [one for one in record.evaluations if one.passed and workload in one.ratios]
    for one in sorted(timed, key=lambda one: (one.finished_s or 0.0, one.number)):
        best = max(best, one.ratios[workload])
        steps.append((one, one.ratios[workload], best))
    return steps


def effects(record: RunRecord) -> dict[str, dict[str, list[float]]]:
    """Scores by parameter and value, of parameters that were tried with at least two values."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in record.evaluations:
        score = one.score
        if score is None or one.reused is not None:
            continue
        for name, value in one.configuration.items():
            found.setdefault(name, {}).setdefault(plain(value), []).append(score)
    return {
        name: dict(sorted(values.items(), key=lambda entry: _natural(entry[0])))
        for name, values in found.items()
        if len(values) > 1
    }


def attained(record: RunRecord, ceilings: Ceilings | None) -> list[Attained]:
    """What default, winner and torch reach on each workload with cold caches, of contests that were held."""
    found = []
    for row in verdicts(record):
        cost = row.result.cost
        moved = cost.get("bytes_read", 0) + cost.get("bytes_written", 0)
        if not moved:
            continue
        times: dict[str, float] = {}
        if row.against_default is not None:
            times["default"] = row.against_default["baseline_time"]["median_ns"]
            if row.result.winner is not None:
                times["winner"] = row.against_default["candidate_time"]["median_ns"]
        if row.against_torch is not None:
            times["torch"] = row.against_torch["baseline_time"]["median_ns"]
        held = row.against_default or row.against_torch or {}
        threads = (held.get("conditions") or {}).get("threads")
        ceiling = None if ceilings is None else copy_ceiling(ceilings, cost, threads)
        for who, nanoseconds in times.items():
            found.append(
                Attained(row.result.workload, who, nanoseconds, moved, cost.get("flops", 0), ceiling)
            )
    return found


def copy_ceiling(ceilings: Ceilings, cost: Mapping[str, int], threads: int | None = None) -> Ceiling | None:
    """Copy bandwidth of memory at the mix of reads and writes of this cost.

    With non-temporal stores and this number of threads where that was measured, else the nearest to it.
    """
    mix = max(1, round(cost["bytes_read"] / cost["bytes_written"])) if cost.get("bytes_written") else 1
    for reads in dict.fromkeys((mix, 1)):
        for count in dict.fromkeys((threads, None)):
            for stores in ("nontemporal", "plain"):
                found = ceilings.copy("DRAM", stores=stores, reads_per_write=reads, threads=count)
                if found is not None:
                    return found
    return None


def memory_roofs(ceilings: Ceilings) -> list[Ceiling]:
    """The best copy bandwidth of each level of memory, nearest first."""
    roofs = []
    for level in _LEVELS:
        kinds = [ceilings.copy(level, stores=stores) for stores in ("nontemporal", "plain")]
        found = [one for one in kinds if one is not None]
        if found:
            roofs.append(max(found, key=lambda one: one.value))
    return roofs


def compute_roofs(ceilings: Ceilings, dtype: str) -> list[Ceiling]:
    """Arithmetic ceilings that concern this dtype: fp32, in which kernels accumulate, and its own."""
    found = [ceilings.flops(name) for name in dict.fromkeys(("fp32", dtype))]
    return [one for one in found if one is not None]


def command(record: RunRecord) -> str:
    """The command line that repeats the run."""
    words = ["kernelwright tune", record.operator]
    words += [f"--workload {name.partition(':')[0]}" for name in record.workloads]
    words += [f"--dtype {record.dtype}"]
    words += [f"--backend {name}" for name in record.backends]
    return " ".join([*words, f"--budget {record.budget_s:g}s", f"--seed {record.seed}"])


def shape(workload: str) -> str:
    """A workload's sizes without its dtype."""
    return workload.partition(":")[0]


def _of(count: int, record: RunRecord) -> str:
    total = len(record.workloads)
    if total == 1:
        return "the workload"
    return f"all {total} workloads" if count == total else f"{count} of {total} workloads"


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _natural(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)
