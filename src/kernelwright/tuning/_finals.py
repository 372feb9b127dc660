"""The end of a run: finalists race, the best is confirmed in a fresh process; only then it is a winner.

Who is worth a confirmation is chosen from many, and each confirmation is one more chance to be lucky: a
finalist is proven when Holm's procedure, over all finalists of its workload that may be confirmed, says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kernelwright import machine
from kernelwright import winners
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.referee import Comparison
from kernelwright.referee import Status
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import judge_all
from kernelwright.space import Configuration
from kernelwright.tuning._budget import Budget
from kernelwright.tuning._events import Phase
from kernelwright.tuning._events import PhaseChanged
from kernelwright.tuning._events import WorkloadDecided
from kernelwright.tuning._log import RunLog
from kernelwright.tuning._narrowing import Narrowing
from kernelwright.tuning._pipeline import Pipeline
from kernelwright.tuning._record import contest_dict
from kernelwright.tuning._record import EvaluationRecord
from kernelwright.tuning._record import WorkloadResult
from kernelwright.tuning._screening import Screening

#: Candidates a workload that race in the finals, a stored winner not counted.
FINALISTS = 3
#: Finalists that get a confirmation before the default is said to stand.
CONFIRMED = 2
#: A finalist below this ratio is not worth confirming: the smallest effect that counts.
WORTH = 1.01


class Finals:
    """Decides each workload: new winner, stored winner, or the default."""

    def __init__(
        self,
        log: RunLog,
        pipeline: Pipeline,
        screening: Screening,
        spec: OperatorSpec,
        workloads: Sequence[Workload],
        stored: Mapping[str, tuple[str, Configuration]],
        budget: Budget,
    ) -> None:
        self._log = log
        self._run = log.record
        self._pipeline = pipeline
        self._screening = screening
        self._spec = spec
        self._workloads = tuple(workloads)
        self._stored = stored
        self._budget = budget
        self._narrowing = Narrowing(log, screening, budget)

    def go(self) -> None:
        """Race, confirm, store; what an earlier sitting did is not done again."""
        self._log.say(PhaseChanged(self._run, Phase.FINALS))
        for workload in self._undecided():
            if workload.name not in self._run.finals:
                self._race(workload)
        self._log.say(PhaseChanged(self._run, Phase.CONFIRMING))
        for workload in self._undecided():
            result = self._decide(workload)
            result.cost = {name: int(value) for name, value in asdict(self._spec.cost(workload)).items()}
            self._log.write("result", asdict(result))
            self._log.say(WorkloadDecided(self._run, self._run.results[-1]))
        for result in self._run.results:
            if result.origin == "new" and result.evidence and not result.stored:
                self._store(result)

    def _undecided(self) -> list[Workload]:
        decided = {result.workload for result in self._run.results}
        return [workload for workload in self._workloads if workload.name not in decided]

    def _contenders(self) -> int:
        """How many workloads are undecided and have something to confirm."""
        return sum(
            workload.bucket in self._stored
            or any(_worth(contest) for contest in self._run.finals[workload.name]["contests"])
            for workload in self._undecided()
        )

    def _finalists(self, workload: Workload) -> list[EvaluationRecord]:
        """The best on this workload, of distinct code, and the stored winner if it is right."""
        chosen = self._narrowing.ranked(workload)[:FINALISTS]
        incumbent = self._incumbent(workload)
        if incumbent is not None and incumbent.number > 1 and incumbent not in chosen:
            chosen.append(incumbent)
        return chosen

    def _incumbent(self, workload: Workload) -> EvaluationRecord | None:
        """The evaluation that judged the stored winner's code; None without one, or when it failed.

        `noisy` says nothing of the winner: it goes on to the finals.
        """
        if workload.bucket not in self._stored:
            return None
        implementation, configuration = self._stored[workload.bucket]
        for one in self._run.evaluations:
            if one.implementation == implementation and one.configuration == configuration:
                judged = one if one.reused is None else self._run.evaluations[one.reused - 1]
                return judged if judged.passed or judged.status == Status.NOISY else None
        return None

    def _race(self, workload: Workload) -> None:
        finalists = self._finalists(workload)
        contests, verdicts = self._screening.race_default(
            workload,
            [one.number for one in finalists],
            each_s=self._budget.final_s,
            seed=self._run.seed * 1000 + 501,
        )
        self._log.write(
            "final",
            {
                "workload": workload.name,
                "contests": [contest_dict(contest, "final") for contest in contests.values()],
                "failures": {name: [str(bad.status), bad.reason] for name, bad in verdicts.items()},
            },
        )

    def _decide(self, workload: Workload) -> WorkloadResult:
        final = self._run.finals[workload.name]
        ranked = sorted(final["contests"], key=lambda contest: -contest["ratio"])
        incumbent = self._incumbent(workload)
        tried: list[str] = []
        confirmed: list[dict[str, Any]] = []
        found: dict[int, Estimate] = {}
        chances = min(sum(_worth(contest) for contest in ranked), CONFIRMED)
        for contest in ranked:
            one = self._run.evaluations[int(contest["candidate"].removeprefix("#")) - 1]
            if incumbent is not None and one.number == incumbent.number:
                break
            if not _worth(contest) or len(tried) == CONFIRMED:
                break
            if tried and self._log.elapsed_s > self._budget.confirm_until_s:
                break
            if self._log.elapsed_s > self._budget.give_up_s:
                tried.append(f"no time was left to confirm #{one.number}")
                break
            against_default = self._confirm(workload, one, "default")
            confirmed += against_default["contests"]
            tried.append(f"#{one.number} was not confirmed ({_summary(against_default)})")
            if against_default["contests"]:
                found[one.number] = _estimate(_main(against_default["contests"]))
            if not _proven(against_default):
                continue
            together = judge_all(found, others=max(chances - len(found), 0))
            if together[one.number] is not Comparison.FASTER:
                tried[-1] = (
                    f"#{one.number} is faster alone ({_summary(against_default)}), but not surely enough "
                    f"for one of {chances} finalists (p = {found[one.number].p_value:.3f})"
                )
                continue
            if incumbent is not None:
                against_stored = self._confirm(workload, one, "stored winner", incumbent)
                confirmed += against_stored["contests"]
                if not _proven(against_stored):
                    tried[-1] = f"#{one.number} does not beat it ({_summary(against_stored)})"
                    continue
            return self._won(workload, one, against_default, ranked, confirmed)
        return self._kept(workload, incumbent, ranked, tried, confirmed)

    def _won(
        self,
        workload: Workload,
        one: EvaluationRecord,
        confirmation: Mapping[str, Any],
        finals: list[dict[str, Any]],
        confirmed: list[dict[str, Any]],
    ) -> WorkloadResult:
        outcome = f"#{one.number} is faster than the default: {_summary(confirmation)}"
        twin = next((r for r in self._run.results if r.bucket == workload.bucket and r.origin == "new"), None)
        if twin is not None:
            outcome += f"; not stored, since {twin.workload} stands for the bucket {twin.bucket}"
        built = self._screening.built(one.number)
        main = _main(confirmation["contests"])
        evidence = {
            "run": self._run.id,
            "evaluation": one.number,
            "workload": workload.name,
            "ratio": main["ratio"],
            "interval": main["interval"],
            "baseline": "default",
            "build_key": one.build_key,
            "code_key": one.code_key,
            "contests": confirmed,
            **(built.details if built is not None else {}),
        }
        return WorkloadResult(
            workload=workload.name,
            bucket=workload.bucket,
            winner=dict(one.configuration),
            outcome=outcome,
            origin="new",
            number=one.number,
            implementation=one.implementation,
            comparison=main["comparison"],
            contests=[*finals, *confirmed],
            evidence={} if twin is not None else evidence,
        )

    def _kept(
        self,
        workload: Workload,
        incumbent: EvaluationRecord | None,
        finals: list[dict[str, Any]],
        tried: list[str],
        confirmed: list[dict[str, Any]],
    ) -> WorkloadResult:
        why = "; ".join(tried) or self._why_none(workload)
        result = WorkloadResult(
            workload=workload.name,
            bucket=workload.bucket,
            winner=None,
            outcome=f"the default stands: {why}",
            contests=[*finals, *confirmed],
        )
        if workload.bucket not in self._stored:
            return result
        if incumbent is None or incumbent.number == 1:
            reason = "is not right any more" if incumbent is None else "compiles to the default's code"
            winners.forget(self._run.operator, workload.bucket)
            result.outcome = f"the default stands: the stored winner {reason} and was removed; {why}"
            return result
        again = self._confirm(workload, incumbent, "default")
        result.contests += again["contests"]
        main = _main(again["contests"])
        noisy = again["status"] == Status.NOISY
        if not noisy and (again["status"] != Status.PASSED or main["comparison"] == "slower"):
            winners.forget(self._run.operator, workload.bucket)
            result.outcome = f"the default stands: the stored winner was removed ({_summary(again)})"
            return result
        result.winner, result.number = dict(incumbent.configuration), incumbent.number
        result.implementation, result.origin = incumbent.implementation, "stored"
        beaten = f"; {why}" if tried else "; nothing beats it"
        if noisy:
            unproven = f"though it could not be confirmed this time ({_summary(again)})"
            result.outcome = f"the stored winner stands, {unproven}{beaten}"
            return result
        result.comparison = main["comparison"]
        result.outcome = f"the stored winner stands: {_summary(again)}{beaten}"
        return result

    def _why_none(self, workload: Workload) -> str:
        final = self._run.finals[workload.name]
        if final["contests"]:
            best = max(final["contests"], key=lambda contest: contest["ratio"])
            low, high = best["interval"]
            return (
                f"the best finalist, {best['candidate']}, is not faster: "
                f"{best['comparison']}, {best['ratio']:.3f}x [{low:.3f}, {high:.3f}]"
            )
        if final["failures"]:
            return "no finalist finished its race"
        return "no candidate screened faster"

    def _confirm(
        self,
        workload: Workload,
        one: EvaluationRecord,
        baseline: str,
        against: EvaluationRecord | None = None,
    ) -> dict[str, Any]:
        for held in self._run.confirmations:
            if (held["workload"], held["number"], held["baseline"]) == (workload.name, one.number, baseline):
                return held
        base = self._screening.built(1 if against is None else against.number)
        built = self._screening.built(one.number)
        body = {"workload": workload.name, "number": one.number, "baseline": baseline, "contests": []}
        if base is None or built is None:
            self._log.write(
                "confirmed", {**body, "status": "build_failed", "reason": "it does not build any more"}
            )
        else:
            verdict = self._pipeline.confirm(
                workload,
                (baseline, base),
                (f"#{one.number}", built),
                budget_s=self._budget.confirm_s(self._log.elapsed_s, self._contenders()),
            )
            contests = [contest_dict(contest, "confirmed") for contest in verdict.contests]
            self._log.write(
                "confirmed",
                {**body, "status": str(verdict.status), "reason": verdict.reason, "contests": contests},
            )
        return self._run.confirmations[-1]

    def _store(self, result: WorkloadResult) -> None:
        assert result.implementation is not None
        assert result.winner is not None
        winners.store(
            winners.Record(
                operator=self._run.operator,
                bucket=result.bucket,
                machine=machine.fingerprint(),
                implementation=result.implementation,
                configuration=result.winner,
                provenance=dict(self._pipeline.provenance(result.implementation)),
                evidence=result.evidence,
                created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            )
        )
        self._log.write("stored", {"bucket": result.bucket, "workload": result.workload})


def _worth(contest: Mapping[str, Any]) -> bool:
    """Whether a finalist may turn out faster when it is confirmed."""
    return contest["comparison"] in ("faster", "ambiguous") and contest["ratio"] >= WORTH


def _estimate(contest: Mapping[str, Any]) -> Estimate:
    low, high = contest["interval"]
    return Estimate(contest["ratio"], (low, high), contest["conditions"].get("p_value"))


def _main(contests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The contest that decides: cold caches, preallocated output."""
    for contest in contests:
        if contest["mode"] == "cold" and contest["regime"] == "preallocated":
            return contest
    return contests[0] if contests else {}


def _proven(confirmation: Mapping[str, Any]) -> bool:
    """Right, faster where it decides, and slower nowhere."""
    contests = confirmation["contests"]
    return (
        confirmation["status"] == "passed"
        and bool(contests)
        and _main(contests)["comparison"] == "faster"
        and all(contest["comparison"] != "slower" for contest in contests)
    )


def _summary(confirmation: Mapping[str, Any]) -> str:
    if confirmation["status"] != "passed" or not confirmation["contests"]:
        return f"{confirmation['status']}: {confirmation['reason']}"
    main = _main(confirmation["contests"])
    low, high = main["interval"]
    text = f"{main['comparison']}, {main['ratio']:.3f}x [{low:.3f}, {high:.3f}]"
    slower = [
        f"slower when {contest['mode']} and {contest['regime']}"
        for contest in confirmation["contests"]
        if contest is not main and contest["comparison"] == "slower"
    ]
    return "; ".join([text, *slower])
