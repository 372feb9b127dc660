"""Right or not, for anyone's Python callable against a user's reference: the calls, made and judged."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

import torch

from kernelwright.errors import UsageError
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract._burst import burst
from kernelwright.referee.contract._cases import CaseCall
from kernelwright.referee.contract._cases import Kind
from kernelwright.referee.contract._cases import plan
from kernelwright.referee.contract._cases import Spot
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._facts import CallResult
from kernelwright.referee.contract._facts import PerformerFailure
from kernelwright.referee.contract._findings import Findings
from kernelwright.referee.contract._history import History
from kernelwright.referee.contract._judgement import changed_later
from kernelwright.referee.contract._judgement import differing
from kernelwright.referee.contract._judgement import judge_call
from kernelwright.referee.contract._judgement import Terms
from kernelwright.referee.contract._places import Place
from kernelwright.referee.contract._places import Places
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import Refusal
from kernelwright.referee.contract._reference import WorkloadFacts
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._timetable import Timetable

_SETTLE_MS = 2.0
#: An output that is wrong is looked at again after this.
_LATE_S = 0.1
#: And after so long at most, as long as something of the candidate wants a processor.
_LATE_AT_MOST_S = 2.0
#: After so long, threads that wait for more work have stopped spinning; then this much within a look is work,
#: even where the machine is so busy that nobody gets a whole processor.
_GRACE_S, _WATCH_S, _IDLE_S = 0.5, 0.03, 0.003
#: Outputs of so many calls ago are looked at again, where they are not larger than this.
_RECOPY_AGO, _RECOPY_BYTES = 3, 16 << 20
_PARALLEL_BYTES = 8 << 20
#: A burst of calls is worth its while where there is time for so many whole ones.
_BURST_CALLS = 8
#: The ends of who reads or writes where nothing is.
_OUT_OF_BOUNDS = ("SIGSEGV", "SIGBUS")


class CheckRun:
    """One check of one candidate in one performer.

    `workloads` are what `describe` said, with its `findings`; `draw` is where all that is secret comes from;
    `budget_s` is how long it may take. Raises UsageError and RefereeError for what is wrong with the
    reference; never for what the candidate does.
    """

    def __init__(
        self,
        reference: Reference,
        performer: Performer,
        workloads: Sequence[WorkloadFacts],
        findings: Findings,
        *,
        draw: random.Random,
        threads: int,
        budget_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reference = reference
        self._performer = performer
        self._draw = draw
        self._threads = threads
        self._time = Timetable(budget_s, clock)
        self._history = History()
        self._places = Places(performer.board)
        self._known: dict[str, tuple[CaseCall, Made, CallResult]] = {}
        self._workloads = workloads
        self.findings = findings

    def run(self) -> Verdict:
        """Make the calls and judge them."""
        workloads = self._workloads
        calls = plan(
            workloads,
            nonfinite=self._reference.contract.nonfinite,
            draw=self._draw,
            threads=self._threads,
        )
        facts = {one.name: one for one in workloads}
        try:
            with few_threads(max(one.nbytes for one in workloads)):
                fault = self._all(calls, facts) or self._burst(workloads)
            fault = fault or self._burning("after the last call")
            if fault is None:
                self._note_operators(workloads[0])
        except PerformerFailure as failure:
            fault = _of_failure(failure, "")
        return self._verdict(fault)

    def _all(self, calls: Sequence[CaseCall], facts: dict[str, WorkloadFacts]) -> Fault | None:
        burned = False
        missing = 0
        for index, case in enumerate(calls):
            if not self._time.allows(case, index):
                self.findings.not_checked.append(f"{case.title} (out of time)")
                missing += case.must
                continue
            following = calls[index + 1] if index + 1 < len(calls) else None
            with self._time.case(case):
                fault = self.one(case, facts[case.workload], following)
            if fault is not None:
                return fault
            if case.settle and case.kind is Kind.AGAIN and not burned:
                burned = True
                fault = self._burning(case.title)
                if fault is not None:
                    return fault
        return self._time.too_slow(self.findings.calls, missing) if missing else None

    def one(self, case: CaseCall, facts: WorkloadFacts, following: CaseCall | None = None) -> Fault | None:
        """Make and judge one call; meanwhile the reference makes the one that follows."""
        made = self._made(case)
        if following is not None:
            self._make_ahead(following)
        if isinstance(made, Refusal):
            if not case.call["steps"]:
                raise UsageError(
                    f"{self._reference.contract.path}: the reference does not take its own inputs "
                    f"({case.title}): {made.said}"
                )
            self.findings.reference_refused.append(f"{case.title}: {made.said}"[:160])
            return None
        self.findings.cases += 1
        place, mark = self._places.put(case, made)
        try:
            result = self._call(case, made, place)
        except PerformerFailure as failure:
            fault = self._refusal(case, failure)
            if mark is not None:
                self._performer.board.release(mark)
            return fault
        fault = self._judge(case, made, result, place, facts)
        if mark is not None:
            self._performer.board.release(mark)
        return fault

    def _made(self, case: CaseCall) -> Made | Refusal:
        if case.kind is Kind.AGAIN and case.workload in self._known:
            return self._known[case.workload][1]
        return self._reference.make(case.call, rows=case.rows, strict_tolerances=case.users_own)

    def _make_ahead(self, case: CaseCall) -> None:
        """Let the reference begin with a case, if it is sure to be judged."""
        again = case.kind is Kind.AGAIN and case.workload in self._known
        if not again and self._time.allows_ahead(case):
            self._reference.make_ahead(case.call, rows=case.rows, strict_tolerances=case.users_own)

    def _call(self, case: CaseCall, made: Made, place: Place) -> CallResult:
        board = self._performer.board
        mark = board.mark()
        try:
            grads = None
            if made.grad_outputs is not None:
                grads = [None if one is None else board.put(one) for one in made.grad_outputs]
            sizes = [leaf_bytes for leaf_bytes in self._output_bytes(made) if leaf_bytes]
            room = 65536 + 2 * max(made.expected.nbytes, sum(one.nbytes for one in made.tensors))
            self.findings.calls += 1
            with self._time.candidate():
                return self._performer.call(
                    place.nodes,
                    room=room,
                    threads=case.threads or self._threads,
                    grad_outputs=grads,
                    settle_ms=_SETTLE_MS if case.settle else 0.0 if room < _RECOPY_BYTES else None,
                    poison=[*sizes, *(one.nbytes for one in made.tensors)],
                )
        finally:
            board.release(mark)

    def _output_bytes(self, made: Made) -> list[int]:
        sizes = []
        for leaf in made.expected.leaves:
            count = leaf.dtype.itemsize
            for size in leaf.shape:
                count *= size
            sizes.append(count)
        return sizes

    def _judge(
        self, case: CaseCall, made: Made, result: CallResult, place: Place, facts: WorkloadFacts
    ) -> Fault | None:
        contract = self._reference.contract
        terms = Terms(
            names=facts.parameters,
            dense=case.kind is Kind.LAYOUT,
            shares=contract.shares,
            share="the same addresses" if case.spot is Spot.SAME else "the same shapes",
        )
        self.findings.notes += made.expected.notes
        fault = judge_call(made, result, self._performer.board, place.tensors, terms, self._history)
        if fault is not None:
            return self._told(case, self._late(made, result) or fault)
        fault = self._repeats(case, made, result, facts)
        if fault is not None:
            return fault
        stays = all(fact.shares_input is None for fact in result.facts) and not contract.shares
        self._history.add(case.title, made.expected, result, stays=stays)
        if case.kind is Kind.PLAIN and case.workload not in self._known:
            self._known[case.workload] = (case, made, result)
        return self._stayed(result.number - _RECOPY_AGO)

    def _late(self, made: Made, result: CallResult) -> Fault | None:
        """Whether an output that was wrong when the call returned becomes another one: work goes on."""
        time.sleep(_LATE_S)
        until = time.monotonic() + _LATE_AT_MOST_S
        # On a busy machine what is to come later waits for a processor: it is waited for.
        while self._performer.runnable() and time.monotonic() < until:
            time.sleep(_LATE_S / 10)
        try:
            now = self._performer.recopy(result.number, room=65536 + 2 * made.expected.nbytes)
        except PerformerFailure:
            return None  # The fault that was found says enough.
        return changed_later(made, result.tensors, now)

    def _told(self, case: CaseCall, fault: Fault) -> Fault:
        """The fault of a call, told with what was right before it."""
        before = ""
        status = fault.status
        if case.kind is Kind.AGAIN:
            before = "right at first, and wrong when called again with the same contents: "
            empty = ("never written", "returned zeros", "the constant", "replay")
            if any(mark in fault.reason for mark in empty):
                status = Status.CHEATED
        elif case.kind is Kind.LEAD:
            before = "right for the shapes of its workload, and wrong for another number of rows: "
        elif case.threads == 1 and self._threads > 1:
            before = "right on all threads, and wrong on one thread: "
        elif case.kind is Kind.TWIN:
            before = "right at first, and wrong when a few elements differ: "
        elif case.kind is Kind.PLAIN and case.workload in self._known and not case.call["gradient"]:
            before = "right at first, and wrong in a later call: "
        return Fault(status, f"{case.title}: {before}{fault.reason}")

    def _repeats(self, case: CaseCall, made: Made, result: CallResult, facts: WorkloadFacts) -> Fault | None:
        """Whether the same call gives the same bits."""
        if case.kind is not Kind.AGAIN or not self._reference.contract.deterministic or facts.repeats:
            return None
        first = self._known[case.workload][2]
        count, total = differing(first.tensors, result.tensors)
        if not count:
            return None
        return Fault(
            Status.NONDETERMINISTIC,
            f"{case.title}: the same call on the same data gave {count} of {total} other elements; write "
            f"DETERMINISTIC = False where results may differ by rounding",
        )

    def _stayed(self, number: int) -> Fault | None:
        """Whether the output of an earlier call still is what it was."""
        past = self._history.before(number)
        if past is None or not past.stays or past.nbytes > _RECOPY_BYTES:
            return None
        try:
            now = self._performer.recopy(number, room=65536 + 2 * past.nbytes)
        except PerformerFailure as failure:
            if failure.raised is not None and failure.alive:
                return None  # It is no longer kept.
            raise
        count, total = differing(past.tensors, now)
        if not count:
            return None
        return Fault(
            Status.WRONG,
            f"the output of call {number} ({past.title}) changed later: {count} of {total} elements are "
            f"others after {_RECOPY_AGO} further calls; its memory was given out again, or something still "
            f"writes to it",
        )

    def _refusal(self, case: CaseCall, failure: PerformerFailure) -> Fault | None:
        """What an exception means: an answer where the call may be refused, else a fault."""
        raised = failure.raised
        if raised is None or not failure.alive or failure.act is not None:
            fault = _of_failure(failure, case.title)
            if case.guard is None or not any(name in fault.reason for name in _OUT_OF_BOUNDS):
                return fault
            hint = f"; in this call, memory right {case.guard} each of its buffers could not be touched"
            return Fault(fault.status, fault.reason + hint)
        said = f"{case.title}: {raised.type}: {raised.message}"[:200]
        if case.may_refuse:
            self.findings.refused.append(said)
            return None
        if case.kind is Kind.LEAD and failure.status is not Status.OUT_OF_MEMORY:
            return Fault(
                Status.UNSUPPORTED,
                f"{case.title}: raises {raised.type}: {raised.message} for a number of rows that the "
                f"reference takes; it is right only for the shapes of its workload",
            )
        return _of_failure(failure, case.title)

    def _burning(self, when: str) -> Fault | None:
        """Whether the candidate's processes work on although nobody asks for anything, at two looks."""
        for _ in range(2):
            used = self._performer.settled(grace_s=_GRACE_S, watch_s=_WATCH_S, surely=True)
            if used < _IDLE_S:
                return None
        return Fault(
            Status.CHEATED,
            f"{when}: its processes went on working after the call had returned: {used * 1e3:.0f} ms of "
            f"processor time within {_WATCH_S * 1e3:.0f} ms, {2 * _GRACE_S:.2g} s after anything was asked "
            f"of it",
        )

    def _burst(self, workloads: Sequence[WorkloadFacts]) -> Fault | None:
        """Many calls back to back on the smallest workload."""
        facts = min(workloads, key=lambda one: one.nbytes)
        if facts.mutated or not self._time.allows_more(facts.name, _BURST_CALLS):
            why = "calls change their inputs" if facts.mutated else "out of time"
            self.findings.not_checked.append(f"{facts.name}, many calls back to back ({why})")
            return None
        return burst(
            self._reference,
            self._performer,
            facts,
            draw=self._draw,
            threads=self._threads,
            history=self._history,
            count_calls=self._count_calls,
            budget_s=min(0.3, 0.1 * self._time.left()),
        )

    def _count_calls(self, calls: int) -> None:
        self.findings.cases += 1
        self.findings.calls += calls

    def _note_operators(self, facts: WorkloadFacts) -> None:
        """Which torch operators a call reaches: evidence, no proof."""
        known = self._known.get(facts.name)
        if known is None or known[1].expected.mutated or self._time.over():
            return
        case, made, _ = known
        place, _ = self._places.put(case, made)
        try:
            # Torch may import its compiler before the first call that is traced.
            result = self._performer.call(
                place.nodes, threads=self._threads, trace=True, within_s=self._performer.deadlines.first_s
            )
        except PerformerFailure as failure:
            self.findings.notes.append(f"operators could not be traced: {failure.reason}"[:200])
            return
        self.findings.operators = result.operators

    def _verdict(self, fault: Fault | None) -> Verdict:
        acts = self._performer.acts()
        evidence = self.findings.evidence()
        evidence["acts"] = [{"act": act.act, "said": act.said, "where": act.where} for act in acts]
        deceits = [act for act in acts if act.deceives]
        if deceits and (fault is None or fault.status is not Status.CHEATED):
            where = f" ({deceits[0].where})" if deceits[0].where else ""
            after = f"; besides, {fault.reason}" if fault is not None else ""
            return Verdict(
                Status.CHEATED, f"the candidate {deceits[0].said}{where}{after}", evidence=evidence
            )
        if fault is not None:
            return Verdict(fault.status, fault.reason, evidence=evidence)
        left = [act for act in acts if act.act in ("state", "left_on")]
        if left:
            where = f" ({left[0].where})" if left[0].where else ""
            return Verdict(Status.WRONG, f"the candidate {left[0].said}{where}", evidence=evidence)
        counts = f"right in {self.findings.calls} calls of {self.findings.cases} cases"
        return Verdict(Status.PASSED, counts, evidence=evidence)


@contextlib.contextmanager
def few_threads(nbytes: int) -> Iterator[None]:
    """One thread of torch in the judge while it handles small tensors: waking others takes longer."""
    before = torch.get_num_threads()
    if nbytes < _PARALLEL_BYTES:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _of_failure(failure: PerformerFailure, title: str) -> Fault:
    before = f"{title}: " if title else ""
    act = failure.act
    if act is None or not act.deceives:
        return Fault(failure.status, f"{before}{failure.reason}")
    said = "" if act.said in failure.reason else f"the candidate {act.said}; "
    return Fault(Status.CHEATED, f"{before}{said}{failure.reason}")
