"""From many screened candidates to a few finalists: who is measured again, and how often."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.ops import Workload
from kernelwright.referee import Status
from kernelwright.referee._selection import Selection
from kernelwright.referee._selection import SelectionPlan
from kernelwright.tuning._budget import Budget
from kernelwright.tuning._log import RunLog
from kernelwright.tuning._record import EvaluationRecord
from kernelwright.tuning._screening import Screening

#: Entrants that share one race with the default, as many as a batch of the search.
TOGETHER = 4
#: A race is one measurement. Its ratio is a median of many pairs already, so that outliers have no side and
#: few repeats do; confirming is the referee's, in fresh processes.
PLAN = SelectionPlan(look=0.25, clear=3.0, least=2, most=4, confirmations=0, slow_outliers=False)


class Narrowing:
    """Ranks the candidates of one workload by their screening and by further short races against the default.

    The selection decides who races again. Every race is journaled, so that a run that is continued goes on
    where it was.
    """

    def __init__(self, log: RunLog, screening: Screening, budget: Budget) -> None:
        self._log = log
        self._run = log.record
        self._screening = screening
        self._budget = budget

    def ranked(self, workload: Workload) -> list[EvaluationRecord]:
        """Candidates of distinct code that are right and screened faster than the default, best first.

        Those that were measured more often come before those that had one chance to be lucky.
        """
        faster = [
            one
            for one in self._run.evaluations
            if one.passed and one.reused is None and one.number > 1 and one.ratios[workload.name] > 1.0
        ]
        if not faster:
            return []
        chosen: Selection[int] = Selection(
            [one.number for one in faster], plan=PLAN, budget=len(faster) + self._budget.repeats
        )
        for one in faster:
            self._tell(chosen, one.number, one.ratios[workload.name])
        for repeat in self._run.repeats.get(workload.name, []):
            self._tell(chosen, repeat["number"], repeat["ratio"])
        while wanted := chosen.ask():
            self._race(workload, chosen, wanted[:TOGETHER])
        return [self._run.evaluations[number - 1] for number in chosen.ranking()]

    def _race(self, workload: Workload, chosen: Selection[int], numbers: Sequence[int]) -> None:
        contests, verdicts = self._screening.race_default(
            workload,
            numbers,
            each_s=self._budget.screen_s,
            seed=self._run.seed * 1000 + 701 + chosen.measurements,
        )
        for number in numbers:
            contest, bad = contests.get(f"#{number}"), verdicts.get(f"#{number}")
            ratio = None if contest is None else contest.ratio
            reason = "" if bad is None else f"{bad.status}: {bad.reason}"
            if bad is not None and bad.status is Status.NOISY:
                # It says nothing of the candidate, who keeps the place that screening gave it.
                ratio = self._run.evaluations[number - 1].ratios[workload.name]
            self._log.write(
                "repeat", {"workload": workload.name, "number": number, "ratio": ratio, "reason": reason}
            )
            self._tell(chosen, number, ratio)

    @staticmethod
    def _tell(chosen: Selection[int], number: int, ratio: float | None) -> None:
        """Small is good: the time is that of the candidate in units of the default's."""
        chosen.ask()
        chosen.tell(number, None if ratio is None else 1.0 / ratio)
