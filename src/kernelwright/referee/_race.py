"""Contests: kernels against a baseline, interleaved natively in one child, outputs of timed calls judged
here."""

from __future__ import annotations

import ctypes
import math
import random
import time
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import psutil

from kernelwright import machine
from kernelwright.referee import _layout as layout
from kernelwright.referee._check import fill_call
from kernelwright.referee._check import kernel_error
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._entrant import NativeCallLike
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

#: Wanted length of the clocked part of a round; the parent's clock can tell at 10 ms and above.
ROUND_NS = 25_000_000
_ARENA = 256 << 20
_MIN_PAIRS = 9
#: Places in memory are drawn anew each round, so that one round alone may owe its result to them.
_MIN_ROUNDS = 3
#: Where the medians' interval is this narrow, measuring on is of no use.
_FINE_ENOUGH = 0.0015
#: A race may take this many times its budget to get its least number of pairs.
_PATIENCE = 6.0
_JUDGED_ELEMENTS = 1 << 22
#: How far child's and parent's clocks may be apart: this part of a round, and this much for waking up.
_CLOCK_SHARE = 0.05
_CLOCK_SLACK_S = 0.002
_SOLO_ROUNDS = 4
_APART_ROUNDS = 0.8
#: Renewed sets a lane and round.
_MOST_TRAPS = 4


@dataclass(frozen=True)
class RaceResult:
    """What came of a race: contests of entrants that ran rightly, verdicts on those that did not."""

    contests: Mapping[str, Contest]
    verdicts: Mapping[str, Verdict]


@dataclass
class Track:
    """The samples of one running race: nanoseconds a call, one row a block, one column a contestant."""

    rows: list[Floats] = field(default_factory=list)
    agreement: list[tuple[float, float]] = field(default_factory=list)
    judged: Counter[int] = field(default_factory=Counter)

    def column(self, contestant: int) -> Floats:
        """All samples of one contestant, NaN where it did not run."""
        joined: Floats = np.concatenate([rows[:, contestant] for rows in self.rows])
        return joined


class Course:
    """An opened race in the child: rounds can be run on it. Contestant 0 is the baseline."""

    def __init__(
        self,
        child: MeasuringChild,
        contestants: Sequence[NativeEntrant],
        call: NativeCallLike,
        sources: Sequence[Mapping[str, int]],
        vary: Mapping[str, int],
        *,
        mode: Mode,
        regime: Regime,
        threads: int,
        seed: int,
        patience: Patience,
        round_ns: int = ROUND_NS,
    ) -> None:
        self._child = child
        self._call = call
        self._patience = patience
        self._draw = random.Random(seed)
        self.contestants = tuple(contestants)
        self.track = Track()
        store, board = child.store, child.board
        kernels = [self._load(index) for index in range(len(contestants))]
        plan_at = store.take(ctypes.sizeof(layout.RacePlan))
        self._state_at = board.take(ctypes.sizeof(layout.RaceState))
        plan = store.record(layout.RacePlan, plan_at)
        fill_call(plan.call, call.block)
        plan.contestants = len(contestants)
        plan.buffers = len(call.buffers)
        plan.groups = len(sources)
        plan.cold = int(mode is Mode.COLD)
        plan.allocating = int(regime is Regime.ALLOCATING)
        plan.threads = threads
        plan.arena_limit = arena_limit(threads)
        plan.round_ns = round_ns
        plan.seed = self._draw.getrandbits(31)
        for index, buffer in enumerate(call.buffers):
            entry = plan.buffer[index]
            entry.nbytes = buffer.nbytes
            entry.output = int(buffer.output)
            entry.vary = 0 if buffer.output else vary.get(buffer.name, 0)
            for group, source in enumerate(sources):
                entry.source[group] = layout.NONE if buffer.output else source[buffer.name]
        self._ask({"op": "open", "plan": plan_at, "state": self._state_at, "kernels": kernels})
        state = self.state
        rows = int(state.blocks_per_round)
        self._samples_at = board.take(rows * len(contestants) * 8)
        self._sampled_at = board.take(_MOST_TRAPS * len(contestants) * ctypes.sizeof(layout.Sample))
        self._copies_at = board.take(
            _MOST_TRAPS * len(contestants) * sum((buffer.nbytes + 127) // 64 * 64 for buffer in call.buffers)
        )

    @property
    def state(self) -> layout.RaceState:
        """What the driver says of the race, in place."""
        return self._child.board.record(layout.RaceState, self._state_at)

    def round(self, active: Sequence[int], *, traps: int = 1, blocks: int | None = None) -> Floats:
        """Run one round of these contestants; its samples, which are kept in `track` as well."""
        state = self.state
        mask = sum(1 << index for index in active)
        count = int(state.blocks_per_round) if blocks is None else min(blocks, int(state.blocks_per_round))
        self._ask(
            {
                "op": "prepare",
                "seed": self._draw.getrandbits(62),
                "blocks": count,
                "active": mask,
                "traps": traps,
            }
        )
        message = {"op": "round", "seed": self._draw.getrandbits(62), "samples": self._samples_at}
        started = time.perf_counter()
        self._ask(message)
        wall = time.perf_counter() - started
        shape = (count, len(self.contestants))
        flat = (ctypes.c_double * (shape[0] * shape[1])).from_address(
            self._child.board.address + self._samples_at
        )
        rows: Floats = np.array(flat, dtype=np.float64).reshape(shape)
        self.track.rows.append(rows)
        self.track.agreement.append((wall, (state.timed_ns + state.other_ns) * 1e-9))
        return rows

    def judge_sampled(self, data: RaceData) -> tuple[int, str] | None:
        """The first contestant whose sampled output is wrong, and why."""
        self._ask({"op": "collect", "samples": self._sampled_at, "copies": self._copies_at})
        board = self._child.board
        buffers = self._call.buffers
        for sample in board.records(layout.Sample, self._sampled_at, int(self.state.samples)):
            contestant = int(sample.contestant)
            if contestant == layout.NONE:
                continue
            for what, mask in (
                ("changed its input", sample.inputs_changed),
                ("wrote past the end of its buffer", sample.written_outside),
            ):
                if mask:
                    names = [buffer.name for index, buffer in enumerate(buffers) if mask >> index & 1]
                    return contestant, f"{what} {' and '.join(names)} in a timed call"
            tensors = {}
            for index, buffer in enumerate(buffers):
                dtype = data.dtype if buffer.output else data.groups[0].arguments[buffer.name].dtype
                tensors[buffer.name] = board.view(sample.at[index], buffer.nbytes, dtype)
            (output,) = [tensors.pop(buffer.name) for buffer in buffers if buffer.output]
            fault = data.fault(int(sample.group), tensors, output)
            if fault is not None:
                return contestant, f"the output of a timed call is wrong: {fault}"
            self.track.judged[contestant] += 1
        return None

    def facts(self) -> dict[str, Any]:
        """How the race was run, for its conditions."""
        state = self.state
        agreement = [busy / wall for wall, busy in self.track.agreement if wall > 0]
        return {
            "sets": int(state.sets),
            "set_bytes": int(state.set_bytes),
            "arena_bytes": int(state.arena_bytes),
            "llc_bytes": machine.current().llc_bytes,
            "huge_pages": bool(state.huge_pages),
            "calls_a_sample": list(state.calls)[: len(self.contestants)],
            "rounds": len(self.track.rows),
            "judged_calls": self.track.judged.total(),
            "clock_agreement": round(float(np.median(agreement)), 4) if agreement else None,
            "flush_to_zero": bool(state.float_control & 0x8000),
            "denormals_are_zero": bool(state.float_control & 0x0040),
        }

    def _load(self, index: int) -> int:
        try:
            return self._child.load(self.contestants[index], self._patience)
        except KernelFailure as failure:
            failure.progress["run"] = index
            raise

    def _ask(self, message: Mapping[str, Any]) -> None:
        """Ask the driver; a kernel's error code or lack of memory becomes a KernelFailure as a death does."""
        answer = self._child.request(message, self._patience)
        if answer["rc"] == 0:
            return
        if answer["rc"] != -1:
            raise RefereeError(
                f"no memory for the buffers of a race (error {answer['rc']}); choose a smaller workload"
            )
        state = self.state
        status, words = kernel_error(int(state.status))
        raise KernelFailure(status, f"{words} when timed", {"run": int(state.failed)})


def arena_limit(threads: int) -> int:
    """Bytes that the buffer sets of a race should take.

    Enough for a round of 10 ms at 25 GB/s, more where many threads can move more, at most four times the
    last-level cache where that is more than this, and never above a quarter of the free memory.
    """
    wanted = _ARENA * max(1, threads // 2)
    rule = max(4 * machine.current().llc_bytes, _ARENA)
    return int(min(wanted, rule, psutil.virtual_memory().available // 4))


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
                    blamed = self._suspect(baseline, left, failure, suspects)
                    if blamed is None:
                        continue
                    at = contestants.index(blamed)
                name = contestants[at].name
                verdicts[name] = Verdict(
                    failure.status, f"{self._data.workload.name}, timed {self._mode}: {failure.reason}"
                )
                left.remove(contestants[at])
                continue
            return RaceResult(contests, {**verdicts, **verdict_of})
        return RaceResult({}, verdicts)

    def _suspect(
        self, baseline: NativeEntrant, entrants: Sequence[NativeEntrant], failure: KernelFailure, times: int
    ) -> NativeEntrant | None:
        """Who is to blame when the baseline fails: itself, or one who shared its process.

        None: nobody yet, try once more. Raises RefereeError when the baseline fails alone.
        """
        self._child.stop()
        try:
            self._solo(baseline)
        except KernelFailure as alone:
            raise RefereeError(
                f"the baseline {baseline.name} {alone.reason}; nothing can be compared with it"
            ) from alone
        if times == 1:
            return None
        for entrant in entrants:
            try:
                self._attempt([baseline, entrant])
            except KernelFailure:
                return entrant
        return entrants[-1]

    def _solo(self, entrant: NativeEntrant) -> None:
        course = self._course([entrant])
        course.round([0])

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
                verdicts = self._clock_verdicts(course)
            facts = {**conditions.as_dict(), **course.facts(), "threads": self._threads, "seed": self._seed}
            return self._contests(course, facts, verdicts), verdicts
        finally:
            store.release(tops[0])
            board.release(tops[1])

    def _measure(self, course: Course) -> None:
        """Run rounds until every contest is decided, fine enough, or out of time."""
        data = self._data
        everyone = list(range(1, len(course.contestants)))
        active = list(everyone)
        began = time.monotonic()
        judged_rounds = 0
        looked_at = 0
        while active:
            course.round([0, *active])
            pairs = sum(len(rows) for rows in course.track.rows)
            spent = time.monotonic() - began
            cheap = course.track.judged.total() * data.elements < _JUDGED_ELEMENTS
            if judged_rounds < 2 or (cheap and self._draw.random() < 0.5):
                judged_rounds += 1
                self._judge_sampled(course)
            enough = pairs >= _MIN_PAIRS and len(course.track.rows) >= _MIN_ROUNDS
            if (enough and spent >= self._budget_s) or spent >= _PATIENCE * self._budget_s:
                break
            if len(course.track.rows) >= _MIN_ROUNDS and pairs >= 1.25 * looked_at:
                looked_at = pairs
                active = [index for index in active if not self._settled(course, index)]

        while not all(course.track.judged[index] for index in everyone):
            missing = [index for index in everyone if not course.track.judged[index]]
            course.round([0, *missing], traps=_MOST_TRAPS)
            self._judge_sampled(course)

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

    def _clock_verdicts(self, course: Course) -> dict[str, Verdict]:
        """Verdicts where the child's clock and ours tell different times, not now and then but nearly always.

        A machine that is busy with other work delays messages, and then our clock runs on: so each contestant
        is timed alone before anything is said of it.
        """
        apart = [disagree(wall, busy) for wall, busy in course.track.agreement]
        if sum(apart) <= _APART_ROUNDS * len(apart):
            return {}
        solo = []
        for index in range(len(course.contestants)):
            seen = []
            for _ in range(_SOLO_ROUNDS):
                course.round([index], traps=0)
                course.track.rows.pop()
                wall, busy = course.track.agreement.pop()
                seen.append(busy / wall if disagree(wall, busy) else 1.0)
            solo.append(min(seen, key=lambda share: abs(1.0 - share)))
        verdicts = {}
        for index, entrant in enumerate(course.contestants[1:], start=1):
            said = f"the child's clock saw {solo[index]:.0%} of the time that passed"
            if solo[index] != 1.0 and solo[0] == 1.0:
                verdicts[entrant.name] = Verdict(
                    Status.CHEATED, f"{said} here while this kernel was timed alone"
                )
            elif solo[0] != 1.0:
                verdicts[entrant.name] = Verdict(
                    Status.NOISY, f"{said} even for the baseline alone: the machine is too busy to time on"
                )
        return verdicts

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


def disagree(wall_s: float, busy_s: float) -> bool:
    """Whether the child claims another time than passed here."""
    return abs(wall_s - busy_s) > _CLOCK_SHARE * wall_s + _CLOCK_SLACK_S


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
