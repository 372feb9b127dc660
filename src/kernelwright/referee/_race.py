"""Races: when to measure on, when to stop, who is to blame, and what the times say."""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter
from collections.abc import Sequence

from kernelwright import machine
from kernelwright.referee._check import CheckRun
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import RefereeError
from kernelwright.referee._clocks import clock_verdicts
from kernelwright.referee._course import Blaming
from kernelwright.referee._course import Course
from kernelwright.referee._course import write_plan
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._native_pool import Pool
from kernelwright.referee._native_result import conclude
from kernelwright.referee._native_result import RaceResult as RaceResult
from kernelwright.referee._native_result import Ran
from kernelwright.referee._native_result import Rules
from kernelwright.referee._native_witness import TimedFault
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._statistics import decided
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import timing
from kernelwright.referee._stopping import bail_out
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Timing
from kernelwright.referee._verdict import Verdict

_MIN_PAIRS = 8
#: A contest is decided before its time is up with so many pairs at least.
_ASK_PAIRS = 10
#: Where the medians' interval is this narrow, measuring on is of no use.
_FINE_ENOUGH = 0.0015
#: A race may take this many times its budget to get its least number of pairs.
_PATIENCE = 6.0
_JUDGED_ELEMENTS = 1 << 22
#: Share of blocks whose outputs are judged, before and after so many elements have been.
_JUDGED_SHARE = 0.5
_JUDGED_SHARE_WHEN_DEAR = 0.1
#: Blocks of one contestant alone, to see whether it fails by itself.
_SOLO_BLOCKS = 6
#: Calls made one at a time, to see whether a kernel that is wrong on the clock is right off it.
_PROBATION_CALLS = 2


class Race:
    """One race from start to verdicts, in one child for each contestant."""

    def __init__(self, pool: Pool, data: RaceData, rules: Rules) -> None:
        self.pool = pool
        self.data = data
        self.rules = rules
        self.draw = random.Random(secrets.randbits(64))

    def run(self, baseline: NativeEntrant, entrants: Sequence[NativeEntrant]) -> RaceResult:
        """Race; an entrant that fails gets its verdict, and the others start again without it."""
        ran = self.times(baseline, entrants)
        contests, noisy = conclude(
            [ran], baseline, [one for one in entrants if one.name not in ran.verdicts], self.data, self.rules
        )
        return RaceResult(contests, {**ran.verdicts, **noisy})

    def times(self, baseline: NativeEntrant, entrants: Sequence[NativeEntrant]) -> Ran:
        """The times of a race, before anything is concluded. Raises RefereeError when the baseline fails."""
        verdicts: dict[str, Verdict] = {}
        failures: Counter[str] = Counter()
        left = list(entrants)
        while left:
            contestants = [baseline, *left]
            try:
                ran = self._attempt(contestants)
            except KernelFailure as failure:
                blamed = contestants[failure.progress.get("run", 0)]
                failures[blamed.name] += 1
                if blamed is baseline:
                    self.pool.drop_baseline()
                    self._blame_baseline(baseline, failure, failures[baseline.name])
                    continue
                verdict = self._verdict(blamed, failure, failures[blamed.name])
                if verdict is not None:
                    verdicts[blamed.name] = verdict
                    left.remove(blamed)
                continue
            return Ran(ran.columns, ran.facts, {**verdicts, **ran.verdicts})
        return Ran({}, {}, verdicts)

    def _blame_baseline(self, baseline: NativeEntrant, failure: KernelFailure, times: int) -> None:
        """Nothing can be compared with a baseline that fails alone, or again and again."""
        if times == 1:
            found = self._alone(baseline)
            if found is None:
                return
            failure = found
        raise RefereeError(
            f"the baseline {baseline.name} {failure.reason}; nothing can be compared with it"
        ) from failure

    def _verdict(self, entrant: NativeEntrant, failure: KernelFailure, times: int) -> Verdict | None:
        """The verdict on an entrant that failed in its own child; None: let it try once more.

        A wrong output is looked into: does the kernel give it when it is called once, too? A death is
        reproduced with nobody else about: alone, the machine has no excuse.
        """
        status, reason = failure.status, failure.reason
        if isinstance(failure, TimedFault):
            if status is Status.WRONG and self._right_off_the_clock(entrant):
                status = Status.CHEATED
                reason += "; the same kernel is right when it is called once and nothing is timed"
        elif status in (Status.HUNG, Status.OUT_OF_MEMORY, Status.CRASHED):
            alone = self._alone(entrant)
            if alone is not None:
                status, reason = alone.status, alone.reason
            elif times == 1:
                return None
            elif status is not Status.CRASHED:
                status, reason = Status.NOISY, f"{reason} in company, but not alone; try again"
        return Verdict(
            status,
            f"{self.data.workload.name}, timed {self.rules.mode}: {reason}",
            evidence={"library": str(entrant.library), "attempts": times},
        )

    def _alone(self, entrant: NativeEntrant) -> KernelFailure | None:
        """What an entrant does in a fresh child with no other contestant about; None when it runs well."""
        try:
            with _Opened(self, [entrant]) as course:
                for _ in range(_SOLO_BLOCKS):
                    course.block([0], judged=True)
        except KernelFailure as failure:
            return failure
        return None

    def _right_off_the_clock(self, entrant: NativeEntrant) -> bool:
        """Whether the kernel is right when it is called once, each time in a fresh child."""
        for case in self.data.cases(_PROBATION_CALLS):
            child = self.pool.child()
            try:
                run = CheckRun(child, [case], self.rules.threads)
                if run.run(entrant, self.rules.patience, {}).status is not Status.PASSED:
                    return False
            finally:
                child.stop()
        return True

    def _attempt(self, contestants: Sequence[NativeEntrant]) -> Ran:
        with machine.watch() as conditions, _Opened(self, contestants, baseline=True) as course:
            self._measure(course)
            verdicts = {
                name: Verdict(Status.CHEATED, f"{self.data.workload.name}, timed {self.rules.mode}: {words}")
                for name, words in course.acts().items()
            }
            verdicts = {**clock_verdicts(course), **verdicts}
            columns = {
                entrant.name if index else "": course.track.column(index)
                for index, entrant in enumerate(course.contestants)
            }
            facts = {
                entrant.name: course.facts(index) for index, entrant in enumerate(course.contestants) if index
            }
        common = {
            **conditions.as_dict(),
            "threads": self.rules.threads,
            "seed": self.rules.seed,
        }
        return Ran(columns, {name: {**common, **one} for name, one in facts.items()}, verdicts)

    def _measure(self, course: Course) -> None:
        """Run blocks until every contest is decided, fine enough, or out of time."""
        active = list(range(1, len(course.contestants)))
        began = time.monotonic()
        looked_at = 0
        while active:
            course.block([0, *active], judged=self._judges_this_block(course))
            pairs = len(course.track.rows)
            spent = time.monotonic() - began
            if (pairs >= _MIN_PAIRS and spent >= self.rules.budget_s) or (
                spent >= _PATIENCE * self.rules.budget_s
            ):
                break
            if pairs >= _MIN_PAIRS and pairs >= 1.25 * looked_at:
                looked_at = pairs
                active = [index for index in active if not self._settled(course, index)]
        # Nobody can know which block will be the last, and each contestant is judged after all its times.
        everyone = list(range(len(course.contestants)))
        course.block(everyone, judged=True)

    def _judges_this_block(self, course: Course) -> bool:
        """The first block, and others that nobody can foresee; the last one comes when all is measured."""
        if not course.track.rows:
            return True
        cheap = course.track.judged.total() * self.data.elements < _JUDGED_ELEMENTS
        return self.draw.random() < (_JUDGED_SHARE if cheap else _JUDGED_SHARE_WHEN_DEAR)

    def _settled(self, course: Course, index: int) -> bool:
        ours, theirs = course.track.column(index), course.track.column(0)
        if estimate(theirs, ours, seed=self.rules.seed).half_width < _FINE_ENOUGH:
            return True
        if bail_out(theirs, ours, best=1.0, minimum_effect=self.rules.minimum_effect, seed=self.rules.seed):
            return True
        return decided(
            theirs, ours, minimum_effect=self.rules.minimum_effect, seed=self.rules.seed, pairs=_ASK_PAIRS
        )


class _Opened:
    """A course, each contestant in a child of its own; entrants' children end with it.

    With `baseline`, the first contestant's lane is taken from the pool, or left there for the next race.
    """

    def __init__(
        self,
        race: Race,
        contestants: Sequence[NativeEntrant],
        *,
        baseline: bool = False,
    ) -> None:
        self._race = race
        self._contestants = contestants
        self._baseline = baseline
        self._own: list[MeasuringChild] = []

    def __enter__(self) -> Course:
        race, rules, data = self._race, self._race.rules, self._race.data
        lanes: list[Lane] = []
        course = (id(data), rules.mode, rules.regime, rules.threads)
        entrants = list(self._contestants)
        seed = race.draw.getrandbits(62)
        if self._baseline:
            known = race.pool.baseline(entrants[0], course)
            if known is None:
                plan_at = self._plan(seed)
                known = self._open(0, race.pool.child(), plan_at)
                race.pool.keep_baseline(known, course)
            assert known.mirror is not None
            seed = int(known.mirror.plan.seed)
            lanes.append(known)
        self._store_top = race.pool.store.top
        try:
            plan_at = self._plan(seed)
            for index in range(len(lanes), len(entrants)):
                child = race.pool.child()
                self._own.append(child)
                lanes.append(self._open(index, child, plan_at))
        except BaseException:
            self._release()
            raise
        return Course(lanes, data=data, mode=rules.mode)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._release()

    def _plan(self, seed: int) -> int:
        rules, data = self._race.rules, self._race.data
        return write_plan(
            self._race.pool.store,
            data.call,
            [group.sources for group in data.groups],
            data=data,
            mode=rules.mode,
            regime=rules.regime,
            threads=rules.threads,
            contestants=len(self._contestants),
            seed=seed,
        )

    def _open(self, index: int, child: MeasuringChild, plan_at: int) -> Lane:
        race = self._race
        lane = Lane(self._contestants[index], child, race.rules.patience, race.data.call.buffers)
        try:
            with Blaming(index):
                lane.open(plan_at)
        except BaseException:
            child.stop()
            raise
        return lane

    def _release(self) -> None:
        self._race.pool.store.release(self._store_top)
        for child in self._own:
            child.stop()
        self._race.pool.get_ready()


def time_course(course: Course, budget_s: float, *, least: int = 8) -> Timing:
    """Time the only contestant of a course."""
    began = time.monotonic()
    while True:
        course.block([0])
        samples = course.track.column(0)
        spent = time.monotonic() - began
        if (len(samples) >= least and spent >= budget_s) or spent >= _PATIENCE * max(budget_s, 0.1):
            return timing(samples)
