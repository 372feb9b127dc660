"""A contest in one pair of fresh processes: the baseline's and the candidate's, block against block.

What may be concluded from the times is not decided here; see `_confirm`.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from typing import NoReturn

from kernelwright.referee._child import RefereeError
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract._batch_clock import AGAIN
from kernelwright.referee.contract._batch_clock import BASELINE
from kernelwright.referee.contract._batch_clock import BatchClock
from kernelwright.referee.contract._batch_clock import BlockFailed
from kernelwright.referee.contract._batch_clock import CANDIDATE
from kernelwright.referee.contract._batch_clock import CANDIDATE_AGAIN
from kernelwright.referee.contract._batch_clock import GRACE_S
from kernelwright.referee.contract._batch_clock import Side
from kernelwright.referee.contract._block_plan import shorter
from kernelwright.referee.contract._conduct import accusation
from kernelwright.referee.contract._conduct import Conduct
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._flush import Flusher
from kernelwright.referee.contract._looks import Look
from kernelwright.referee.contract._looks import Looks
from kernelwright.referee.contract._looks import output_fault
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import WorkloadFacts
from kernelwright.referee.contract._rounds import BLOCK_NS
from kernelwright.referee.contract._rounds import Plan
from kernelwright.referee.contract._rounds import Rule
from kernelwright.referee.contract._rounds import Series
from kernelwright.referee.contract._rounds import stop_process
from kernelwright.referee.contract._sides import between_s
from kernelwright.referee.contract._sides import evened
from kernelwright.referee.contract._sides import Paces as Paces
from kernelwright.referee.contract._sides import SidePlanner
from kernelwright.referee.contract._slots import nodes_of
from kernelwright.referee.contract._slots import put
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._stage import PerformerFailure
from kernelwright.referee.contract._stage import Taken

#: Blocks are looked into with this chance, and while that takes less than this share of the time.
_LOOKED = 0.5
_LOOK_SHARE = 0.25
#: How long what first calls started may run on before anything is timed, and how long it is looked at.
_SETTLE_S, _SETTLE_LOOK_S = 8.0, 0.015
#: Empty blocks of the baseline that tell what messages take, and how long it sleeps before each.
_OVERHEADS = 9
_OVERHEAD_REST_S = 0.004
_LAST_LOOKS = 3


class Found(Exception):
    """The race ends here: a verdict on the candidate."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict.reason)


@dataclass(frozen=True)
class Ground:
    """What all pairs of processes of a contest have in common.

    `open_baseline` and `open_candidate` start a fresh process each and load what it is to call. `single`:
    see `Slots`.
    """

    reference: Reference
    facts: WorkloadFacts
    open_baseline: Callable[[], Performer]
    open_candidate: Callable[[], Performer]
    mode: Mode
    threads: int
    rule: Rule
    flusher: Flusher | None
    single: bool

    @property
    def mutates(self) -> bool:
        """Whether calls change their arguments."""
        return bool(self.facts.mutated)


@dataclass
class PairFacts:
    """How a pair of processes was run, for the record."""

    started_s: float = 0.0
    first_call_s: float = 0.0
    warmups: int = 0
    rounds: int = 0
    stopped: str = ""
    judged: int = 0
    clock: dict[str, Any] | None = None
    baseline: Conduct | None = None
    candidate: Conduct | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "start_s": round(self.started_s, 3),
            "first_call_s": round(self.first_call_s, 3),
            "warmup_calls": self.warmups,
            "rounds": self.rounds,
            "stopped": self.stopped,
            "judged_calls": self.judged,
            "baseline": self.baseline.facts() if self.baseline else None,
            "candidate": self.candidate.facts() if self.candidate else None,
        }


class Pair:
    """A baseline and a candidate in fresh processes. A context manager: both are dead when it is left.

    `paces` is what an earlier pair found out; None: this one finds out.
    """

    def __init__(
        self, ground: Ground, draws: Sequence[Made], seed: int, *, paces: Paces | None = None
    ) -> None:
        self._ground = ground
        self._draws = draws
        self._random = random.Random(seed)
        self._performers: list[Performer] = []
        self._known = paces
        self.facts = PairFacts()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for performer in self._performers:
            performer.close()

    def start(self) -> tuple[float, float]:
        """Start both, make their first calls and find how long calls take; seconds of one block each.

        Raises Found when the candidate fails or is wrong, RefereeError when the baseline fails.
        """
        began = time.monotonic()
        ground = self._ground
        with ThreadPoolExecutor(2) as side_by_side:
            opened = side_by_side.map(self._open, (ground.open_baseline, ground.open_candidate))
            self.baseline, self.candidate = opened
            self._first_call()
            # What a first call sets in motion (pools of compilers, say) may take a while to come to rest.
            list(side_by_side.map(_settle, (self.baseline, self.candidate)))
        base, cand = self._sides = self._plan_sides()
        with self._blaming(self.baseline):
            self._overhead = self._known.overhead_ns if self._known else self._overhead_ns()
        self._looks = Looks(
            ground.reference,
            ground.facts.name,
            ground.facts.parameters,
            self.candidate,
            cand.slots,
            self._draws,
            output_bytes=self._draws[0].expected.nbytes,
            seed=self._random.getrandbits(48),
            mutates=ground.mutates,
            only_last=ground.reference.contract.shares,
        )
        self._looking = False
        self._clock = BatchClock(
            base,
            cand,
            mode=ground.mode,
            overhead_ns=self._overhead,
            seed=self._random.getrandbits(48),
            mutates=ground.mutates,
            flusher=ground.flusher,
            look=self._look,
        )
        self.facts.baseline, self.facts.candidate = base.conduct, cand.conduct
        self.facts.started_s = time.monotonic() - began
        return (
            base.plan.calls * base.call_ns * 1e-9 + between_s(base),
            cand.plan.calls * cand.call_ns * 1e-9 + between_s(cand),
        )

    @property
    def paces(self) -> Paces:
        """What the blocks so far took."""
        base, cand = self._sides
        return Paces((base.usual_ns, cand.usual_ns), self._overhead)

    def _overhead_ns(self) -> float:
        """What a block's messages take the baseline's process, woken from sleep as it is for a block."""
        took = []
        for _ in range(_OVERHEADS):
            time.sleep(_OVERHEAD_REST_S)
            took.append(self.baseline.batch(()).wall_ns)
        return statistics.median(took)

    def _open(self, opener: Callable[[], Performer]) -> Performer:
        try:
            performer = opener()
        except PerformerFailure as failure:
            self._blame(failure, candidate=opener is self._ground.open_candidate)
        self._performers.append(performer)
        return performer

    def run(self, series: Series, process: int, plan: Plan, *, budget_s: float) -> None:
        """Rounds until they are enough; their times are added to `series`.

        Raises Found when the candidate fails, is wrong, or cheats; RefereeError when the baseline fails.
        """
        rule = Rule(
            self._ground.rule.minimum_effect,
            self._ground.rule.seed,
            min(self._ground.rule.least, plan.rounds),
            min(self._ground.rule.most, plan.rounds),
            self._ground.rule.warmups,
        )
        once = [BASELINE, CANDIDATE]
        active = [*once, AGAIN, CANDIDATE_AGAIN] if plan.twice else once
        self._warm_up(rule.warmups)
        began = time.monotonic()
        looking_s = 0.0
        while True:
            self._looking = not self.facts.rounds or (
                self._random.random() < _LOOKED and looking_s < _LOOK_SHARE * (time.monotonic() - began + 0.1)
            )
            row = self._round(active)
            candidate_ns = row[CANDIDATE]
            if plan.twice:
                candidate_ns = math.sqrt(candidate_ns * row[CANDIDATE_AGAIN])
            series.add(process, row[BASELINE], candidate_ns, row[AGAIN])
            self.facts.rounds += 1
            looked = time.monotonic()
            self._judge()
            looking_s += time.monotonic() - looked
            mine = series.of(process)
            stopped = stop_process(mine, rule, spent_s=time.monotonic() - began, budget_s=budget_s)
            if stopped is not None:
                break
        self.facts.stopped = stopped
        self._last_look()
        self._finish()

    def _warm_up(self, calls: int) -> None:
        """Blocks that do not count: one of each, and more until either has made so many calls."""
        while not self.facts.warmups or self.facts.warmups < calls:
            self._round([BASELINE, CANDIDATE])
            self.facts.warmups += min(side.plan.calls + side.plan.lead for side in self._sides)
        least_ns = min(side.plan.calls * side.usual_ns for side in self._sides)
        for side in self._sides:
            # What it was planned by was rough, and a block that is longer than needed is time lost.
            side.plan = shorter(side.plan, BLOCK_NS / least_ns)

    def _round(self, active: Sequence[int]) -> list[float]:
        try:
            row = self._clock.round(active).ns[0]
        except BlockFailed as failed:
            self._blame(failed.failure, candidate=failed.contestant in (CANDIDATE, CANDIDATE_AGAIN))
        return [float(one) for one in row]

    def _last_look(self) -> None:
        """One more block of the candidate, looked into in any case; that it is the last, nobody can foresee.

        Raises Found where none of its timed calls can be judged.
        """
        before = self._looks.judged
        self._looking = True
        for _ in range(_LAST_LOOKS):
            self._round([CANDIDATE])
            self._judge()
            if self._looks.judged > before:
                return
        reason = (
            f"timed {self._ground.mode}: none of its timed calls could be judged; nothing can be said of it"
        )
        raise Found(Verdict(Status.NOISY, reason))

    def _look(self, order: Sequence[int]) -> None:
        if self._looking:
            self._looks.take(order)

    def _judge(self) -> None:
        found = self._looks.judge()
        if found is not None:
            raise Found(self._verdict_on(*found))
        self.facts.judged = self._looks.judged

    def _verdict_on(self, fault: Fault, look: Look) -> Verdict:
        """A wrong timed call: was it so only because it was timed? A fresh process is asked the same."""
        said = f"a timed call ({self._ground.mode}) was wrong: {fault.reason}"
        if fault.status is Status.CHEATED or look.changed:
            return Verdict(fault.status, said)
        again = self._in_a_fresh_process(look)
        if again is None:
            return Verdict(
                Status.CHEATED,
                f"right when checked and wrong when timed ({self._ground.mode}): {fault.reason}; a fresh "
                f"process gets the same inputs right",
            )
        return Verdict(again.status, f"wrong on the inputs of a timed call: {again.reason}")

    def _in_a_fresh_process(self, look: Look) -> Fault | None:
        made = self._looks.expected(look.inputs)
        assert made is not None
        fresh = self._open(self._ground.open_candidate)
        args = put(fresh.board, (self._draws[0].arguments, look.inputs))
        return self._called(fresh, args, made)

    def _called(self, performer: Performer, args: Sequence[Any], made: Made) -> Fault | None:
        room = 2 * made.expected.nbytes + (1 << 20)
        result = performer.call(args, room=room, threads=self._ground.threads)
        after = None
        if self._ground.mutates:
            after = tuple(performer.board.copy(node) for node in nodes_of(args))
        return output_fault(made.expected, Taken(result.value, result.tensors, result.facts), after)

    def _first_call(self) -> None:
        """The first calls of both, which may compile; the candidate's has to be right here, too."""
        made = self._draws[0]
        draw = made.arguments, made.tensors
        for performer in (self.baseline, self.candidate):
            mark = performer.board.mark()
            args = put(performer.board, draw)
            began = time.monotonic()
            with self._blaming(performer):
                fault = self._called(performer, args, made)
            if fault is not None and performer is self.candidate:
                raise Found(Verdict(fault.status, f"in a fresh process: {fault.reason}"))
            self.facts.first_call_s = time.monotonic() - began
            performer.board.release(mark)

    def _plan_sides(self) -> list[Side]:
        """Find out how long calls take, then make the sets of arguments that the blocks need."""
        ground = self._ground
        planner = SidePlanner(
            self._draws,
            self._random,
            mode=ground.mode,
            mutates=ground.mutates,
            single=ground.single,
            threads=ground.threads,
        )
        both = (self.baseline, self.candidate)
        rough = [*self._known.call_ns] if self._known else []
        for performer in () if self._known else both:
            with self._blaming(performer):
                rough.append(planner.rough_ns(performer))
        sides = []
        for name, performer, call_ns in zip(("baseline", "candidate"), both, evened(rough), strict=True):
            with self._blaming(performer):
                sides.append(planner.side(name, performer, call_ns))
        return sides

    def _finish(self) -> None:
        """What can be said of the candidate when all rounds are through."""
        base, cand = self._sides
        self.facts.clock = dict(self._clock.facts())
        said = accusation(cand.conduct, base.conduct, grace_s=GRACE_S)
        if said is not None:
            raise Found(Verdict(Status.CHEATED, f"while it was timed ({self._ground.mode}), {said}"))
        act = next((act for act in self.candidate.acts() if act.deceives), None)
        if act is not None:
            where = f" ({act.where})" if act.where else ""
            raise Found(Verdict(Status.CHEATED, f"the candidate {act.said}{where} while it was timed"))

    @contextmanager
    def _blaming(self, performer: Performer) -> Iterator[None]:
        try:
            yield
        except PerformerFailure as failure:
            self._blame(failure, candidate=performer is self.candidate)

    def _blame(self, failure: PerformerFailure, *, candidate: bool) -> NoReturn:
        """What a failure means: a verdict on the candidate, or, of the baseline, that nothing can be said."""
        if candidate:
            raise Found(Verdict(failure.status, f"timed {self._ground.mode}: {failure.reason}")) from failure
        raise RefereeError(
            f"{failure.reason}, when it was timed; nothing can be compared with it"
        ) from failure


def _settle(performer: Performer) -> None:
    performer.settled(grace_s=_SETTLE_S, watch_s=_SETTLE_LOOK_S)
