"""What the times of a race say: contests, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from kernelwright.referee._child import Patience
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._statistics import aa_gate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import Floats
from kernelwright.referee._statistics import judge_all
from kernelwright.referee._statistics import timing
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract._floor import as_facts
from kernelwright.referee.contract._floor import ceilings_here
from kernelwright.referee.contract._floor import find_floor
from kernelwright.referee.contract._floor import Floor
from kernelwright.referee.contract._floor import impossible

#: The baseline is compared with itself where there are so many pairs of its times.
_AA_PAIRS = 6


@dataclass(frozen=True)
class RaceResult:
    """What came of a race: contests of entrants that ran rightly, verdicts on those that did not."""

    contests: Mapping[str, Contest]
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True)
class Rules:
    """How a race is run; see `NativeJudge.race`."""

    mode: Mode
    regime: Regime
    budget_s: float
    seed: int
    minimum_effect: float
    threads: int
    patience: Patience
    screen: bool = False


@dataclass
class Ran:
    """One attempt that came to its end: times by contestant, and what was noticed."""

    columns: dict[str, Floats]
    facts: dict[str, dict[str, Any]]
    verdicts: dict[str, Verdict] = field(default_factory=dict)


def conclude(
    attempts: Sequence[Ran],
    baseline: NativeEntrant,
    entrants: Sequence[NativeEntrant],
    data: RaceData,
    rules: Rules,
    level: float = 0.95,
) -> tuple[dict[str, Contest], dict[str, Verdict]]:
    """Contests from the times of one or several sets of processes; `noisy` where nothing can be compared.

    `level` is that of the intervals, and of what several claims are held to together.
    """
    found, times = {}, {}
    verdicts: dict[str, Verdict] = {}
    for entrant in entrants:
        theirs = np.concatenate([ran.columns[""] for ran in attempts])
        ours = np.concatenate([ran.columns[entrant.name] for ran in attempts])
        process = np.concatenate([np.full(len(ran.columns[""]), index) for index, ran in enumerate(attempts)])
        both = np.isfinite(ours) & np.isfinite(theirs)
        times[entrant.name] = theirs[both], ours[both]
        labels = process[both] if len(attempts) > 1 else None
        found[entrant.name] = estimate(
            theirs[both], ours[both], seed=rules.seed, level=level, processes=labels
        )
    refusal, noise = against_itself([ran.columns.get("", np.zeros(0)) for ran in attempts], rules)
    if refusal is not None:
        reason = f"{data.workload.name}, timed {rules.mode}: {refusal}"
        return {}, {
            name: Verdict(Status.NOISY, reason, evidence={"baseline_against_itself": noise}) for name in found
        }
    contests = {}
    comparisons = judge_all(found, minimum_effect=rules.minimum_effect, level=level) if found else {}
    floor, floor_facts = _floor(data, rules) if found else (None, {})
    for entrant in entrants:
        theirs_ns, ours_ns = times[entrant.name]
        their_time, our_time = timing(theirs_ns), timing(ours_ns)
        one = found[entrant.name]
        # A baseline below it, too, would say that the floor is wrong here.
        if floor is not None and impossible(floor, their_time) is None:
            words = impossible(floor, our_time)
            if words is not None:
                reason = f"{data.workload.name}, timed {rules.mode}: {words}"
                verdicts[entrant.name] = Verdict(Status.IMPOSSIBLE, reason, evidence=floor_facts)
                continue
        contests[entrant.name] = Contest(
            candidate=entrant.name,
            baseline=baseline.name,
            workload=data.workload.name,
            mode=rules.mode,
            regime=rules.regime,
            comparison=comparisons[entrant.name],
            ratio=one.ratio,
            interval=one.interval,
            candidate_time=our_time,
            baseline_time=their_time,
            blocks=len(ours_ns),
            conditions={
                **attempts[-1].facts[entrant.name],
                "process_pairs": len(attempts),
                "ratios": [_ratio(ran, entrant) for ran in attempts],
                "roofline": floor_facts,
                "baseline_against_itself": noise,
            },
        )
    return contests, verdicts


def _ratio(ran: Ran, entrant: NativeEntrant) -> float | None:
    """The median ratio of one pair of processes."""
    ratios = ran.columns[""] / ran.columns[entrant.name]
    known = ratios[np.isfinite(ratios)]
    return round(float(np.median(known)), 5) if known.size else None


def _floor(data: RaceData, rules: Rules) -> tuple[Floor, Mapping[str, Any]]:
    """The least time of a call of this workload on this machine, and the same for the conditions."""
    ceilings, source = ceilings_here()
    floor = find_floor(data.spec.cost(data.workload), rules.mode, ceilings, rules.threads)
    return floor, as_facts(floor, source)


def against_itself(columns: Sequence[Floats], rules: Rules) -> tuple[str | None, list[float] | None]:
    """Why the baseline's times forbid any comparison, if they do, and the interval of its ratio to itself.

    Its neighbouring batches are paired as those of two contestants are, which one is called the first being
    drawn. Too few times for that forbid nothing.
    """
    random = np.random.default_rng(rules.seed)
    first, second, labels = [], [], []
    for label, times in enumerate(columns):
        known = times[np.isfinite(times)]
        pairs = known[: len(known) // 2 * 2].reshape(-1, 2)
        swapped = random.random(len(pairs)) < 0.5
        first.append(np.where(swapped, pairs[:, 1], pairs[:, 0]))
        second.append(np.where(swapped, pairs[:, 0], pairs[:, 1]))
        labels.append(np.full(len(pairs), label))
    one, other = np.concatenate(first), np.concatenate(second)
    if len(one) < _AA_PAIRS:
        return None, None
    # One process says how noisy the machine is just as well as several, which never differ here.
    found = estimate(one, other, seed=rules.seed)
    noise = [round(float(value), 5) for value in found.interval]
    return aa_gate(one, other, minimum_effect=rules.minimum_effect, seed=rules.seed), noise
