"""Races: when to measure on, when to stop, who is to blame, and what the times say."""

from __future__ import annotations

import itertools
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
from kernelwright.referee._course import arena_limit
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
#: A screening asks after so many who is far behind; with the last block there are enough for an interval.
_FAR_PAIRS = 4
#: A contest is decided before its time is up with so many pairs at least.
_ASK_PAIRS = 10
#: Buffer sets that there is memory for, at least.
_LEAST_SETS = 4
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
                    course.block([0], judged=[0])
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
        opened = _Opened(self, contestants, main=True)
        with machine.watch() as conditions, opened as course:
            if self.rules.screen:
                self._screen(course, opened)
            else:
                self._measure(course)
            verdicts = {
                name: Verdict(Status.CHEATED, f"{self.data.workload.name}, timed {self.rules.mode}: {words}")
                for name, words in course.acts().items()
            }
            verdicts = {**clock_verdicts(course, self.pool.settle), **verdicts}
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
            everyone = [0, *active]
            course.block(everyone, judged=everyone if self._judges_this_block(course) else ())
            pairs = len(course.track.rows)
            if self._over(pairs, time.monotonic() - began):
                break
            if pairs >= _MIN_PAIRS and pairs >= 1.25 * looked_at:
                looked_at = pairs
                active = [index for index in active if not self._settled(course, index)]
        # Nobody can know which block will be the last, and each contestant is judged after all its times.
        everyone = list(range(len(course.contestants)))
        course.block(everyone, judged=everyone)

    def _screen(self, course: Course, opened: _Opened) -> None:
        """Run blocks until time is up; who is far behind after a few is left at that.

        Entrants are judged in the last block, in one that is drawn, and in others that nobody can foresee;
        the baseline, which nobody could have changed, in the last one.
        """
        active = list(range(1, len(course.contestants)))
        drawn = self.draw.randrange(_MIN_PAIRS - 1)
        began = time.monotonic()
        looked_at = 0
        for before in itertools.count():
            spent = time.monotonic() - began
            if self._over(before + 1, spent * (before + 1) / max(before, 1)):
                break
            if before == _FAR_PAIRS:
                active = [index for index in active if not self._far_behind(course, index)]
            elif before >= max(_MIN_PAIRS, 1.25 * looked_at):
                looked_at = before
                active = [index for index in active if not self._settled(course, index)]
            if not active:
                break
            looks = before == drawn or self.draw.random() < _JUDGED_SHARE_WHEN_DEAR
            if looks:
                course.block([0, *active], judged=active, meanwhile=self.pool.get_ready)
                self.pool.settle()
            else:
                course.block([0, *active])
        everyone = list(range(len(course.contestants)))
        course.block(everyone, judged=everyone, meanwhile=opened.get_ready)

    def _far_behind(self, course: Course, index: int) -> bool:
        ours, theirs = course.track.column(index), course.track.column(0)
        return bail_out(
            theirs, ours, best=1.0, minimum_effect=self.rules.minimum_effect, seed=self.rules.seed
        )

    def _over(self, pairs: int, spent_s: float) -> bool:
        """Whether enough is measured, or there is no time for more."""
        enough = pairs >= _MIN_PAIRS and spent_s >= self.rules.budget_s
        return enough or spent_s >= _PATIENCE * self.rules.budget_s

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

    With `main`, the first contestant is the baseline, whose lane is taken from the pool or left there for the
    next race. When a screening of several entrants has gone well, their children are left there, too.
    """

    def __init__(self, race: Race, contestants: Sequence[NativeEntrant], *, main: bool = False) -> None:
        self._race = race
        self._contestants = tuple(contestants)
        self._main = main
        self._screen = main and race.rules.screen
        self._several = len(self._contestants) > 2
        self._own: dict[int, MeasuringChild] = {}
        self._lanes: list[Lane] = []

    def __enter__(self) -> Course:
        pool = self._race.pool
        self._store_top = pool.store.top
        try:
            self._open_all()
        except BaseException as error:
            self._release(error)
            raise
        rules, data = self._race.rules, self._race.data
        return Course(self._lanes, data=data, mode=rules.mode, some_rows=rules.screen)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._release(error)

    def get_ready(self) -> None:
        """Let the child of the next entrant fill its buffer sets for the same race.

        Several entrants are those that race next, on another course.
        """
        self._race.pool.get_ready(None if self._several else self._lanes[0])

    def _open_all(self) -> None:
        race, rules, pool = self._race, self._race.rules, self._race.pool
        course = (id(race.data), rules.mode, rules.regime, rules.threads, rules.screen)
        baseline = self._contestants[0]
        limit = self._arena_limit()
        known = pool.baseline(baseline, course, limit) if self._main else None
        for index, entrant in enumerate(self._contestants):
            if index or known is None:
                kept = pool.entrant(entrant) if self._screen and index else None
                self._own[index] = kept or pool.child()
                self._own[index].launch()
        pool.drop_entrants()
        # Opening calibrates: nothing may start or end meanwhile.
        pool.settle()
        for child in self._own.values():
            child.start()
        if known is None:
            plan_at = self._plan()
            self._lanes.append(self._open(0, plan_at))
            if self._main:
                pool.keep_baseline(self._lanes[0], course)
                del self._own[0]
                self._store_top = pool.store.top  # the plan is kept with it
        else:
            assert known.mirror is not None
            plan_at = known.mirror.plan_at
            self._lanes.append(known)
        self._lanes += [self._open(index, plan_at) for index in range(1, len(self._contestants))]

    def _plan(self) -> int:
        rules, data = self._race.rules, self._race.data
        return write_plan(
            self._race.pool.store,
            data.call,
            [group.sources for group in data.groups],
            data=data,
            mode=rules.mode,
            regime=rules.regime,
            threads=rules.threads,
            arena_bytes=self._arena_limit(),
            seed=self._race.draw.getrandbits(62),
        )

    def _arena_limit(self) -> int:
        """A screening has batches half as long, so that half the memory is filled; never too few for two."""
        limit = arena_limit(self._race.rules.threads, len(self._contestants))
        if not self._race.rules.screen:
            return limit
        needed = _LEAST_SETS * sum(buffer.nbytes for buffer in self._race.data.call.buffers)
        return min(limit, max(limit // 2, needed))

    def _open(self, index: int, plan_at: int) -> Lane:
        race = self._race
        lane = Lane(self._contestants[index], self._own[index], race.rules.patience, race.data.call.buffers)
        with Blaming(index):
            lane.open(plan_at)
        return lane

    def _release(self, error: object) -> None:
        pool = self._race.pool
        for index, child in self._own.items():
            if self._screen and self._several and error is None:
                self._lanes[index].put_away()
                pool.keep_entrant(self._contestants[index], child)
            else:
                pool.stop(child)
        if error is not None:
            pool.drop_entrants()
        elif self._main:
            self._lanes[0].put_away()
        pool.store.release(self._store_top)
        pool.get_ready()


def time_course(course: Course, budget_s: float, *, least: int = 8) -> Timing:
    """Time the only contestant of a course."""
    began = time.monotonic()
    while True:
        course.block([0])
        samples = course.track.column(0)
        spent = time.monotonic() - began
        if (len(samples) >= least and spent >= budget_s) or spent >= _PATIENCE * max(budget_s, 0.1):
            return timing(samples)
