"""The search phase: ask, build, check, screen against the default, tell; until its share is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence

from kernelwright.errors import UsageError
from kernelwright.ops import Workload
from kernelwright.referee import Status
from kernelwright.search import Failure
from kernelwright.search import LocalSearch
from kernelwright.search import Optimizer
from kernelwright.space import Configuration
from kernelwright.tuning._budget import Budget
from kernelwright.tuning._budget import ENOUGH
from kernelwright.tuning._events import BestChanged
from kernelwright.tuning._events import EvaluationFinished
from kernelwright.tuning._events import Phase
from kernelwright.tuning._events import PhaseChanged
from kernelwright.tuning._log import RunLog
from kernelwright.tuning._pipeline import Built
from kernelwright.tuning._pipeline import Candidate
from kernelwright.tuning._pipeline import Entry
from kernelwright.tuning._pipeline import Pipeline
from kernelwright.tuning._pipeline import Unbuilt
from kernelwright.tuning._record import EvaluationRecord
from kernelwright.tuning._record import PENDING

#: Builds that are asked for together; measuring waits for them.
BATCH = 4
#: Evaluations that are spread over the space before the search turns local: few, since defaults were picked
#: with care and most points far away from them are slow.
START = 4
_FIRST_GUESS_S = 1.5


class Screening:
    """Judges candidates one batch at a time, and keeps what was built for the finals.

    Each workload has a winner of its own, so it has an optimiser of its own; they take turns in asking, and
    each learns from every evaluation.

    The default configuration of the first entry is evaluation 1 and the baseline of all ratios. Evaluations
    that an earlier sitting left without a verdict are judged first.
    """

    def __init__(
        self,
        log: RunLog,
        pipeline: Pipeline,
        workloads: Sequence[Workload],
        stored: Mapping[str, tuple[str, Configuration]],
        budget: Budget,
    ) -> None:
        self._log = log
        self._run = log.record
        self._pipeline = pipeline
        self._workloads = tuple(workloads)
        self._stored = stored
        self._budget = budget
        self._entries = {entry.implementation: entry for entry in pipeline.entries}
        self._optimizers: dict[str, dict[str, Optimizer]] = {}
        self._built: dict[int, Built] = {}
        self._judged = 0
        self._began_s = log.elapsed_s

    def go(self) -> bool:
        """Search until the budget's share is used. False when the default itself is not right."""
        self._replay()
        if not self._judge_default():
            return False
        self._judge([one for one in self._run.evaluations if one.status == PENDING])
        self._judge(self._ask_stored())
        while batch := self._ask():
            self._judge(batch)
        return True

    def built(self, number: int) -> Built | None:
        """The artifact of an evaluation; made again (from the store) after a pause. None if it fails now."""
        if number not in self._built:
            (made,) = self._pipeline.build([_candidate(self._run.evaluations[number - 1])])
            if isinstance(made, Unbuilt):
                self._log.note(f"#{number} does not build any more: {made.reason}")
                return None
            self._built[number] = made
        return self._built[number]

    def _replay(self) -> None:
        for entry in self._entries.values():
            self._optimizers[entry.implementation] = {
                # The first batch is common to all: one optimiser asks it.
                workload.name: LocalSearch(
                    entry.space, seed=self._run.seed + place, start=1 if place else START
                )
                for place, workload in enumerate(self._workloads)
            }
        for one in self._run.evaluations:
            entry_of = self._entries.get(one.implementation)
            if entry_of is None or not entry_of.space.contains(one.configuration):
                raise UsageError(
                    f"evaluation #{one.number} of run {self._run.id} is outside today's space: the kernel "
                    "has changed since; start a new run"
                )
            self._withhold(one.implementation, one.configuration)
            if one.status != PENDING:
                self._tell(one)

    def _judge_default(self) -> bool:
        first = next(iter(self._entries.values()))
        if not self._run.evaluations:
            self._write_ask(first, first.space.default, "default")
        one = self._run.evaluations[0]
        if one.status == PENDING:
            self._judge([one])
        elif one.passed:
            before = one.code_key
            again = self.built(1)
            if again is None or again.code_key != before:
                raise UsageError(
                    f"the default of {one.implementation} compiles to other code than in run {self._run.id}: "
                    "its source or the compiler has changed since; start a new run"
                )
        return one.passed

    def _ask_stored(self) -> list[EvaluationRecord]:
        asked = []
        for implementation, configuration in self._stored.values():
            known = [one for one in self._run.evaluations if one.configuration == configuration]
            if not any(one.implementation == implementation for one in known):
                asked.append(self._write_ask(self._entries[implementation], configuration, "winner"))
        for entry in list(self._entries.values())[1:]:
            if not any(one.implementation == entry.implementation for one in self._run.evaluations):
                asked.append(self._write_ask(entry, entry.space.default, "default"))
        return asked

    def _ask(self) -> list[EvaluationRecord]:
        few = self._run.artifacts < ENOUGH
        until_s = self._budget.search_at_last_until_s if few else self._budget.search_until_s
        left = until_s - self._log.elapsed_s
        spent = self._log.elapsed_s - self._began_s
        each = spent / self._judged if self._judged else _FIRST_GUESS_S
        room = min(BATCH, math.floor(left / max(each, 1e-9)))
        asked: list[EvaluationRecord] = []
        for _ in range(room):
            turn = len(self._run.evaluations)
            entry = list(self._entries.values())[turn % len(self._entries)]
            optimizers = self._optimizers[entry.implementation]
            # The designed batch first; then each workload's optimiser in its turn.
            place = 0 if turn < START else turn // len(self._entries) % len(self._workloads)
            optimizer = optimizers[self._workloads[place].name]
            for proposal in optimizer.ask(1):
                asked.append(self._write_ask(entry, proposal.configuration, proposal.origin))
        if room > 0 and not asked:
            self._log.note("the whole space was searched")
        return asked

    def _write_ask(self, entry: Entry, configuration: Configuration, origin: str) -> EvaluationRecord:
        self._withhold(entry.implementation, configuration)
        self._log.write(
            "asked",
            {
                "number": len(self._run.evaluations) + 1,
                "implementation": entry.implementation,
                "tier": entry.tier,
                "configuration": configuration,
                "origin": origin,
            },
        )
        return self._run.evaluations[-1]

    def _judge(self, batch: Sequence[EvaluationRecord]) -> None:
        if not batch:
            return
        self._log.say(PhaseChanged(self._run, Phase.BUILDING))
        made = self._pipeline.build([_candidate(one) for one in batch])
        self._log.say(PhaseChanged(self._run, Phase.SCREENING))
        for one, built in zip(batch, made, strict=True):
            best_before = {workload.name: self._run.best(workload.name) for workload in self._workloads}
            if isinstance(built, Unbuilt):
                self._verdict(one, built.status, built.reason, stage="asked")
            else:
                self._built[one.number] = built
                self._log.write(
                    "built",
                    {
                        "number": one.number,
                        "build_key": built.build_key,
                        "code_key": built.code_key,
                        "build_s": round(built.seconds, 4),
                        "details": dict(built.details),
                    },
                )
                if not self._reuse(one):
                    self._measure(one, built)
            self._judged += 1
            self._tell(one)
            self._log.say(EvaluationFinished(self._run, one))
            for workload in self._workloads:
                best = self._run.best(workload.name)
                if best is one and best_before[workload.name] is not one and one.number > 1:
                    self._log.say(BestChanged(self._run, workload.name, one))

    def _reuse(self, one: EvaluationRecord) -> bool:
        """Share the verdict of the same machine code, if it was judged."""
        for earlier in self._run.evaluations[: one.number - 1]:
            same = earlier.code_key == one.code_key and earlier.implementation == one.implementation
            if same and earlier.status != PENDING and earlier.reused is None:
                self._verdict(
                    one,
                    earlier.status,
                    earlier.reason,
                    stage=earlier.stage,
                    ratios=earlier.ratios,
                    intervals=earlier.intervals,
                    reused=earlier.number,
                )
                return True
        return False

    def _measure(self, one: EvaluationRecord, built: Built) -> None:
        checked = self._pipeline.check(built, self._workloads, seed=self._run.seed)
        if checked.status is not Status.PASSED:
            self._verdict(one, checked.status, checked.reason, stage="checked")
            return
        ratios: dict[str, float] = {}
        intervals: dict[str, tuple[float, float]] = {}
        name = f"#{one.number}"
        for workload in self._workloads:
            if one.number == 1:
                ratios[workload.name], intervals[workload.name] = 1.0, (1.0, 1.0)
                continue
            contests, verdicts = self._pipeline.race(
                workload,
                ("default", self._built_default()),
                {name: built},
                budget_s=self._budget.screen_s,
                seed=self._run.seed * 1000 + one.number,
            )
            if name in verdicts:
                bad = verdicts[name]
                self._verdict(one, bad.status, f"{workload.name}: {bad.reason}", stage="screened")
                return
            contest = contests[name]
            ratios[workload.name] = contest.ratio
            intervals[workload.name] = contest.interval
        self._verdict(one, "passed", checked.reason, stage="screened", ratios=ratios, intervals=intervals)

    def _built_default(self) -> Built:
        default = self.built(1)
        if default is None:
            raise UsageError("the default configuration does not build any more; start a new run")
        return default

    def _verdict(
        self,
        one: EvaluationRecord,
        status: str,
        reason: str,
        *,
        stage: str,
        ratios: Mapping[str, float] | None = None,
        intervals: Mapping[str, tuple[float, float]] | None = None,
        reused: int | None = None,
    ) -> None:
        self._log.write(
            "verdict",
            {
                "number": one.number,
                "status": str(status),
                "reason": reason,
                "stage": stage,
                "ratios": dict(ratios or {}),
                "intervals": dict(intervals or {}),
                "reused": reused,
            },
        )

    def _withhold(self, implementation: str, configuration: Configuration) -> None:
        for optimizer in self._optimizers[implementation].values():
            optimizer.withhold(configuration)

    def _tell(self, one: EvaluationRecord) -> None:
        for workload, optimizer in self._optimizers[one.implementation].items():
            if one.passed:
                optimizer.tell(one.configuration, -math.log(one.ratios[workload]))
            else:
                optimizer.tell(one.configuration, Failure(one.status, one.reason))


def _candidate(one: EvaluationRecord) -> Candidate:
    return Candidate(one.implementation, one.tier, dict(one.configuration))
