"""The search phase: ask, build, check, screen against the default, tell; until its share is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

from kernelwright.errors import UsageError
from kernelwright.ops import Workload
from kernelwright.referee import Contest
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.search import Failure
from kernelwright.search import LocalSearch
from kernelwright.search import Optimizer
from kernelwright.space import Configuration
from kernelwright.tuning._budget import Budget
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
#: From this measuring time of a candidate on, screening looks twice, and spares the second look, which is the
#: longer one, to who is clearly behind. Below, starting a second race costs more than that saves.
_LOOK_TWICE_S = 0.2
_FIRST_LOOK = 0.4
_EFFECT = 1.01

#: A ratio to the default, and its interval.
Screened: TypeAlias = tuple[float, tuple[float, float]]


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
        while batch := self._ask_stored():
            self._judge(batch)
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

    def race_default(
        self, workload: Workload, numbers: Sequence[int], *, each_s: float, seed: int
    ) -> tuple[Mapping[str, Contest], Mapping[str, Verdict]]:
        """Race evaluations that still build against the default, by the names `#number`.

        `each_s` is measuring time for two contestants. Nothing is raced where the default does not build.
        """
        built = {f"#{number}": self.built(number) for number in numbers}
        able: dict[str, Built] = {name: one for name, one in built.items() if one is not None}
        default = self.built(1)
        if not able or default is None:
            return {}, {}
        return self._pipeline.race(
            workload, ("default", default), able, budget_s=each_s * (1 + len(able)) / 2, seed=seed
        )

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
        """Stored winners, and the defaults of other implementations, that were not asked yet; one batch."""
        asked: list[EvaluationRecord] = []
        for implementation, configuration in self._stored.values():
            if len(asked) == BATCH:
                break
            known = [one for one in self._run.evaluations if one.configuration == configuration]
            if not any(one.implementation == implementation for one in known):
                asked.append(self._write_ask(self._entries[implementation], configuration, "winner"))
        for entry in list(self._entries.values())[1:]:
            if not any(one.implementation == entry.implementation for one in self._run.evaluations):
                asked.append(self._write_ask(entry, entry.space.default, "default"))
        return asked

    def _ask(self) -> list[EvaluationRecord]:
        left = self._budget.search_until_s(self._promising(), self._run.artifacts) - self._log.elapsed_s
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

    def _promising(self) -> int:
        """How many workloads have a candidate that will want to be confirmed."""
        return sum(
            any(one.passed and one.intervals[workload.name][0] > 1.0 for one in self._run.evaluations[1:])
            for workload in self._workloads
        )

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
        """Build together; then check one by one, and race those that are right against the default."""
        if not batch:
            return
        self._log.say(PhaseChanged(self._run, Phase.BUILDING))
        made = self._pipeline.build([_candidate(one) for one in batch])
        self._log.say(PhaseChanged(self._run, Phase.SCREENING))
        right: list[EvaluationRecord] = []
        twins: list[EvaluationRecord] = []
        for one, built in zip(batch, made, strict=True):
            if isinstance(built, Unbuilt):
                self._verdict(one, built.status, built.reason, stage="asked")
                continue
            self._note_built(one, built)
            if self._reuse(one):
                continue
            if any(_same_code(one, other) for other in right):
                twins.append(one)
                continue
            checked = self._pipeline.check(built, self._workloads, seed=self._run.seed)
            if checked.status is Status.PASSED:
                right.append(one)
            else:
                self._verdict(one, checked.status, checked.reason, stage="checked")
        if right and right[0].number == 1:
            even = {workload.name: 1.0 for workload in self._workloads}
            self._verdict(
                right[0],
                "passed",
                "",
                stage="screened",
                ratios=even,
                intervals=dict.fromkeys(even, (1.0, 1.0)),
            )
        else:
            self._race(right)
        for one in twins:
            self._reuse(one)

    def _note_built(self, one: EvaluationRecord, built: Built) -> None:
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

    def _reuse(self, one: EvaluationRecord) -> bool:
        """Share the verdict of the same machine code, if it was judged."""
        for earlier in self._run.evaluations[: one.number - 1]:
            if _same_code(one, earlier) and earlier.status != PENDING and earlier.reused is None:
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

    def _race(self, right: Sequence[EvaluationRecord]) -> None:
        """Race all against the default on every workload; who fails on one is out."""
        ratios: dict[int, dict[str, float]] = {one.number: {} for one in right}
        intervals: dict[int, dict[str, tuple[float, float]]] = {one.number: {} for one in right}
        left = {f"#{one.number}": one for one in right}
        for workload in self._workloads:
            if not left:
                return
            screened, verdicts = self._screen(workload, left, seed=self._run.seed * 1000 + right[0].number)
            for name, bad in verdicts.items():
                self._verdict(left.pop(name), bad.status, f"{workload.name}: {bad.reason}", stage="screened")
            for name, one in left.items():
                ratios[one.number][workload.name], intervals[one.number][workload.name] = screened[name]
        for one in left.values():
            number = one.number
            self._verdict(
                one, "passed", "", stage="screened", ratios=ratios[number], intervals=intervals[number]
            )

    def _screen(
        self, workload: Workload, entrants: Mapping[str, EvaluationRecord], *, seed: int
    ) -> tuple[dict[str, Screened], dict[str, Verdict]]:
        """Ratios to the default with their intervals, and verdicts of those that have none.

        Where a look is long enough to be worth it, who is clearly slower than the incumbent after a first
        one is left at that; the others' two looks are pooled.
        """
        looks = (_FIRST_LOOK, 1.0 - _FIRST_LOOK) if self._budget.screen_s >= _LOOK_TWICE_S else (1.0,)
        best = self._run.best(workload.name)
        incumbent = 1.0 if best is None else max(best.ratios[workload.name], 1.0)
        screened: dict[str, Screened] = {}
        failed: dict[str, Verdict] = {}
        left = list(entrants)
        for look, share in enumerate(looks):
            contests, verdicts = self._pipeline.race(
                workload,
                ("default", self._built_default()),
                {name: self._built[entrants[name].number] for name in left},
                budget_s=share * self._budget.screen_s * (1 + len(left)) / 2,
                seed=seed + 499 * look,
            )
            failed.update(verdicts)
            for name, contest in contests.items():
                seen = contest.ratio, contest.interval
                screened[name] = pooled(screened[name], seen) if name in screened else seen
            left = [name for name in contests if screened[name][1][1] * _EFFECT >= incumbent]
            if not left:
                break
        for name in [name for name, bad in failed.items() if name in screened and bad.status is Status.NOISY]:
            del failed[name]  # the first look stands
        return screened, failed

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
        self._judged += 1
        self._tell(one)
        self._log.say(EvaluationFinished(self._run, one))
        for workload in self._workloads:
            if one.number > 1 and self._run.best(workload.name) is one:
                self._log.say(BestChanged(self._run, workload.name, one))

    def _withhold(self, implementation: str, configuration: Configuration) -> None:
        for optimizer in self._optimizers[implementation].values():
            optimizer.withhold(configuration)

    def _tell(self, one: EvaluationRecord) -> None:
        for workload, optimizer in self._optimizers[one.implementation].items():
            if one.passed:
                optimizer.tell(one.configuration, -math.log(one.ratios[workload]))
            else:
                optimizer.tell(one.configuration, Failure(one.status, one.reason))


def pooled(one: Screened, other: Screened) -> Screened:
    """Two measurements of one ratio as one: log-ratios weighted by their intervals' inverse squared widths.
    One without any interval adds nothing."""
    weights = [_weight(interval) for _, interval in (one, other)]
    if not sum(weights):
        return other
    logs = [math.log(ratio) for ratio, _ in (one, other)]
    centre = sum(weight * log for weight, log in zip(weights, logs, strict=True)) / sum(weights)
    reach = 1.0 / math.sqrt(sum(weights))
    return math.exp(centre), (math.exp(centre - reach), math.exp(centre + reach))


def _weight(interval: tuple[float, float]) -> float:
    low, high = interval
    if low <= 0.0 or math.isinf(high):
        return 0.0
    return 1.0 / max(math.log(high / low) / 2.0, 1e-6) ** 2


def _same_code(one: EvaluationRecord, other: EvaluationRecord) -> bool:
    return one.code_key == other.code_key and one.implementation == other.implementation


def _candidate(one: EvaluationRecord) -> Candidate:
    return Candidate(one.implementation, one.tier, dict(one.configuration))
