"""Confirmation: one entrant judged from nothing, in fresh pairs of processes, looked at once or a few times.

Who looks at the times as they come, and stops when he likes what he sees, is wrong more often than his level
says. With `looks`, every interval is therefore as much wider as makes all looks together hold the level
(Pocock 1977; as repeated confidence intervals, Jennison and Turnbull 1989).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from kernelwright.errors import UsageError
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._judge import NativeJudge
from kernelwright.referee._native_result import conclude
from kernelwright.referee._native_result import Ran
from kernelwright.referee._native_result import Rules
from kernelwright.referee._race import Race
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._statistics import foreseen
from kernelwright.referee._statistics import judge as judge_estimate
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict

#: Level of each of so many equally spaced looks that together hold 95% (Pocock's constants).
LEVELS = {1: 0.95, 2: 0.9706, 3: 0.9779, 4: 0.9818}


def confirm(
    spec: OperatorSpec,
    workload: Workload,
    baseline: NativeEntrant,
    entrant: NativeEntrant,
    *,
    describe: Describe,
    budget_s: float = 1.0,
    seed: int | None = None,
    minimum_effect: float = 0.01,
    modes: Sequence[Mode] = tuple(Mode),
    regimes: Sequence[Regime] = tuple(Regime),
    processes: int = 3,
    looks: int = 1,
) -> Verdict:
    """Judge one entrant from nothing: checked, then raced in each mode and regime, in fresh processes.

    `processes` pairs of processes, one for the baseline and one for the entrant, each pair with fresh data,
    share the budget: the pair is what the interval takes for independent. With `looks` above one, as many
    pairs and as much time come again, so often at most, for a contest that is undecided and that they can be
    expected to decide. The verdict carries one contest for each mode and regime, modes first; `budget_s` is
    that of one contest up to the first look. `seed` is drawn when None. Raises UsageError for no process and
    for a number of looks other than one to four.
    """
    if processes < 1:
        raise UsageError(f"a confirmation needs one pair of processes at least; got {processes}")
    if looks not in LEVELS:
        raise UsageError(f"a confirmation is looked at 1 to {max(LEVELS)} times; got {looks}")
    seed = secrets.randbits(48) if seed is None else seed
    with NativeJudge(seed=seed) as judge:
        verdict = judge.check(spec, entrant, describe=describe, workloads=[workload], seed=seed)
        if verdict.status is not Status.PASSED:
            return verdict
        courses = [
            _Course(judge.rules(mode, regime, budget_s / processes, seed, minimum_effect))
            for mode in modes
            for regime in regimes
        ]
        left = courses
        for look in range(1, looks + 1):
            for _ in range(processes):
                judge.forget()
                data = judge.race_data(spec, describe, workload)
                for course in left:
                    ran = Race(judge.pool, data, course.rules).times(baseline, [entrant])
                    if entrant.name in ran.verdicts:
                        return ran.verdicts[entrant.name]
                    course.ran.append(ran)
            for course in left:
                course.conclude(baseline, entrant, data, LEVELS[looks])
            more = (looks - look) * processes
            left = [course for course in left if more and course.may_be_decided(more, LEVELS[looks])]
            if not left:
                break
        for course in courses:
            if course.refused is not None:
                return course.refused
        contests = tuple(course.contest for course in courses if course.contest is not None)
        return Verdict(verdict.status, verdict.reason, contests, verdict.evidence)


@dataclass
class _Course:
    """One mode and regime: what ran so far, and what it says."""

    rules: Rules
    ran: list[Ran] = field(default_factory=list)
    contest: Contest | None = None
    refused: Verdict | None = None

    def conclude(self, baseline: NativeEntrant, entrant: NativeEntrant, data: RaceData, level: float) -> None:
        found, refused = conclude(self.ran, baseline, [entrant], data, self.rules, level)
        self.contest, self.refused = found.get(entrant.name), refused.get(entrant.name)

    def may_be_decided(self, more: int, level: float) -> bool:
        """Whether so many more pairs of processes can be expected to decide it."""
        if self.contest is None:
            return self.refused is not None and self.refused.status is Status.NOISY
        if self.contest.comparison is not Comparison.AMBIGUOUS:
            return False
        ratios = [ratio for ratio in self.contest.conditions["ratios"] if ratio is not None]
        if len(ratios) < 2:
            return True
        expected = foreseen(ratios, more=more, level=level)
        return judge_estimate(expected, minimum_effect=self.rules.minimum_effect) is not Comparison.AMBIGUOUS
