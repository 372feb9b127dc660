"""Races: when to measure on, when to stop, who is to blame, and what the times say."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelwright import machine
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._clocks import clock_verdicts
from kernelwright.referee._course import Course
from kernelwright.referee._course import MOST_TRAPS
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._statistics import decided
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import Floats
from kernelwright.referee._statistics import judge as judge_estimate
from kernelwright.referee._statistics import timing
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Timing
from kernelwright.referee._verdict import Verdict

_MIN_PAIRS = 9
#: Places in memory are drawn anew each round, so that one round alone may owe its result to them.
_MIN_ROUNDS = 3
#: Where the medians' interval is this narrow, measuring on is of no use.
_FINE_ENOUGH = 0.0015
#: A race may take this many times its budget to get its least number of pairs.
_PATIENCE = 6.0
_JUDGED_ELEMENTS = 1 << 22
#: Share of rounds whose outputs are judged, before and after so many elements have been.
_JUDGED_SHARE = 0.5
_JUDGED_SHARE_WHEN_DEAR = 0.1
#: Rounds of a baseline alone, to see whether it fails by itself.
_SOLO_ROUNDS = 4
#: Rounds in which an output of each entrant must have been judged at last: a handful is enough, by far.
_LAST_ROUNDS = 20


@dataclass(frozen=True)
class RaceResult:
    """What came of a race: contests of entrants that ran rightly, verdicts on those that did not."""

    contests: Mapping[str, Contest]
    verdicts: Mapping[str, Verdict]


class Race:
    """One race from start to verdicts."""

    def __init__(
        self,
        child: MeasuringChild,
        data: RaceData,
        *,
        mode: Mode,
        regime: Regime,
        budget_s: float,
        seed: int,
        minimum_effect: float,
        threads: int,
        patience: Patience,
    ) -> None:
        self._child = child
        self._data = data
        self._mode = mode
        self._regime = regime
        self._budget_s = budget_s
        self._effect = minimum_effect
        self._threads = threads
        self._patience = patience
        self._draw = random.Random(seed)
        self._seed = seed

    def run(self, baseline: NativeEntrant, entrants: Sequence[NativeEntrant]) -> RaceResult:
        """Race; an entrant that fails gets its verdict, and the others start again without it."""
        verdicts: dict[str, Verdict] = {}
        left = list(entrants)
        suspects = 0
        while left:
            contestants = [baseline, *left]
            try:
                contests, verdict_of = self._attempt(contestants)
            except KernelFailure as failure:
                at = failure.progress.get("run", 0)
                if not 0 < at < len(contestants):
                    suspects += 1
                    if suspects == 1:
                        self._try_alone(baseline)
                        continue
                    blamed, failure = self._suspect(baseline, left, failure)
                    at = contestants.index(blamed)
                name = contestants[at].name
                verdicts[name] = Verdict(
                    failure.status, f"{self._data.workload.name}, timed {self._mode}: {failure.reason}"
                )
                left.remove(contestants[at])
                continue
            return RaceResult(contests, {**verdicts, **verdict_of})
        return RaceResult({}, verdicts)

    def _try_alone(self, baseline: NativeEntrant) -> None:
        """Run the baseline in a process of its own. Raises RefereeError when it fails there."""
        self._child.stop()
        try:
            self._solo(baseline)
        except KernelFailure as alone:
            raise RefereeError(
                f"the baseline {baseline.name} {alone.reason}; nothing can be compared with it"
            ) from alone

    def _suspect(
        self, baseline: NativeEntrant, entrants: Sequence[NativeEntrant], failure: KernelFailure
    ) -> tuple[NativeEntrant, KernelFailure]:
        """Who is to blame when the baseline fails again and again: itself, or one who shares its process.

        When it fails neither alone nor with one entrant, one of them is left out, and nothing is said of it.
        """
        self._try_alone(baseline)
        for entrant in entrants:
            try:
                self._attempt([baseline, entrant])
            except KernelFailure as again:
                return entrant, again
        reason = f"in its company the baseline {failure.reason}, but not with it alone; try again"
        return entrants[-1], KernelFailure(Status.NOISY, reason, {})

    def _solo(self, entrant: NativeEntrant) -> None:
        course = self._course([entrant])
        for _ in range(_SOLO_ROUNDS):
            course.round([0])
            self._judge_sampled(course)

    def _course(self, contestants: Sequence[NativeEntrant]) -> Course:
        data = self._data
        return Course(
            self._child,
            contestants,
            data.call,
            [group.sources for group in data.groups],
            {buffer.name: data.vary(buffer.name) for buffer in data.call.buffers if not buffer.output},
            mode=self._mode,
            regime=self._regime,
            threads=self._threads,
            seed=self._draw.getrandbits(48),
            patience=self._patience,
        )

    def _attempt(self, contestants: Sequence[NativeEntrant]) -> tuple[dict[str, Contest], dict[str, Verdict]]:
        store, board = self._child.store, self._child.board
        tops = store.top, board.top
        try:
            with machine.watch() as conditions:
                course = self._course(contestants)
                self._measure(course)
                verdicts = clock_verdicts(course)
            facts = {**conditions.as_dict(), **course.facts(), "threads": self._threads, "seed": self._seed}
            return self._contests(course, facts, verdicts), verdicts
        finally:
            store.release(tops[0])
            board.release(tops[1])

    def _measure(self, course: Course) -> None:
        """Run rounds until every contest is decided, fine enough, or out of time."""
        everyone = list(range(1, len(course.contestants)))
        active = list(everyone)
        began = time.monotonic()
        looked_at = 0
        while active:
            judged = self._judges_this_round(course)
            course.round([0, *active], traps=int(judged))
            if judged:
                self._judge_sampled(course)
            pairs = sum(len(rows) for rows in course.track.rows)
            spent = time.monotonic() - began
            enough = pairs >= _MIN_PAIRS and len(course.track.rows) >= _MIN_ROUNDS
            if (enough and spent >= self._budget_s) or spent >= _PATIENCE * self._budget_s:
                break
            if len(course.track.rows) >= _MIN_ROUNDS and pairs >= 1.25 * looked_at:
                looked_at = pairs
                active = [index for index in active if not self._settled(course, index)]
        before = Counter(course.track.judged)
        missing = everyone
        for traps in (1, *[MOST_TRAPS] * _LAST_ROUNDS):
            course.round([0, *missing], traps=traps)
            self._judge_sampled(course)
            missing = [index for index in missing if course.track.judged[index] == before[index]]
            if not missing:
                return
        reason = (
            f"none of its timed calls could be judged in {_LAST_ROUNDS} rounds; nothing can be said of it"
        )
        raise KernelFailure(Status.NOISY, reason, {"run": missing[0]})

    def _judges_this_round(self, course: Course) -> bool:
        """The first round, and others that nobody can foresee; the last one comes when all is measured."""
        if not course.track.rows:
            return True
        cheap = course.track.judged.total() * self._data.elements < _JUDGED_ELEMENTS
        return self._draw.random() < (_JUDGED_SHARE if cheap else _JUDGED_SHARE_WHEN_DEAR)

    def _judge_sampled(self, course: Course) -> None:
        found = course.judge_sampled(self._data)
        if found is not None:
            raise KernelFailure(Status.WRONG, found[1], {"run": found[0]})

    def _settled(self, course: Course, index: int) -> bool:
        ours, theirs = course.track.column(index), course.track.column(0)
        if np.count_nonzero(np.isfinite(ours)) < 2 * _MIN_PAIRS:
            return False
        if estimate(theirs, ours, seed=self._seed).half_width < _FINE_ENOUGH:
            return True
        return decided(theirs, ours, minimum_effect=self._effect, seed=self._seed)

    def _contests(
        self, course: Course, facts: Mapping[str, Any], verdicts: Mapping[str, Verdict]
    ) -> dict[str, Contest]:
        contests = {}
        theirs = course.track.column(0)
        noise = _noise(theirs, self._seed)
        for index, entrant in enumerate(course.contestants[1:], start=1):
            if entrant.name in verdicts:
                continue
            ours = course.track.column(index)
            both = np.isfinite(ours) & np.isfinite(theirs)
            found = estimate(theirs, ours, seed=self._seed)
            contests[entrant.name] = Contest(
                candidate=entrant.name,
                baseline=course.contestants[0].name,
                workload=self._data.workload.name,
                mode=self._mode,
                regime=self._regime,
                comparison=judge_estimate(found, minimum_effect=self._effect),
                ratio=found.ratio,
                interval=found.interval,
                candidate_time=timing(ours[both]),
                baseline_time=timing(theirs[both]),
                blocks=int(both.sum()),
                conditions={**facts, "baseline_against_itself": noise},
            )
        return contests


def time_course(course: Course, budget_s: float, *, least: int = 10) -> Timing:
    """Time the only contestant of a course."""
    began = time.monotonic()
    while True:
        course.round([0], traps=0)
        samples = course.track.column(0)
        spent = time.monotonic() - began
        if (len(samples) >= least and spent >= budget_s) or spent >= _PATIENCE * max(budget_s, 0.1):
            return timing(samples)


def _noise(times: Floats, seed: int) -> list[float] | None:
    """The interval of the ratio of neighbouring baseline samples: how far from one an A/A comparison
    strays."""
    known = times[np.isfinite(times)]
    whole = len(known) // 2 * 2
    if whole < 10:
        return None
    flipped = np.random.default_rng(seed).random(whole // 2) < 0.5
    first, second = known[:whole:2], known[1:whole:2]
    found = estimate(np.where(flipped, second, first), np.where(flipped, first, second), seed=seed)
    return [round(value, 5) for value in found.interval if math.isfinite(value)]
