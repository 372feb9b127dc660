"""`ContractJudge.bench`: check first, then compare in fresh processes; one verdict."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract._check import few_threads
from kernelwright.referee.contract._confirm import Contenders
from kernelwright.referee.contract._confirm import GATES
from kernelwright.referee.contract._confirm import race_all
from kernelwright.referee.contract._facts import Baseline
from kernelwright.referee.contract._race import Found
from kernelwright.referee.contract._stage import Performer

if TYPE_CHECKING:
    from kernelwright.referee.contract._judge import ContractJudge

#: Whatever the budget, a verdict comes within two minutes; this is what is left of them for racing.
_MOST_S = 100.0


def bench_contract(
    judge: ContractJudge,
    modes: Sequence[Mode | str] = (Mode.WARM,),
    *,
    budget_s: float | None = None,
    processes: int = 3,
    minimum_effect: float = 0.01,
    gate: str = "bootstrap",
) -> Verdict:
    """Check a candidate, then race it against its baseline.

    Args:
        judge: owns reference, candidate and template.
        modes: `warm`, `cold`, or both; a contest for each, and for each workload of the baseline.
        budget_s: what all of it may take, the check included; the judge's own budget when None. A race ends
            earlier when it is decided.
        processes: fresh pairs of processes for each contest; fewer where starting them takes too long.
        minimum_effect: the smallest difference that counts.
        gate: `bootstrap` (paired intervals, the process as the unit) or `welch`.

    Raises UsageError and RefereeError for what is wrong elsewhere than in the candidate.
    """
    if gate not in GATES:
        raise UnknownNameError("gate", gate, GATES)
    wanted = [_mode(mode) for mode in dict.fromkeys(modes)]
    if not wanted:
        raise UsageError("a bench needs at least one mode: warm or cold")
    limit = min(judge.budget_s if budget_s is None else budget_s, _MOST_S)
    began = time.monotonic()
    checked = judge.check(budget_s=limit)
    if checked.status is not Status.PASSED:
        return checked
    facts = [judge.reference.describe(name, (0, 1)) for name in judge.reference.contract.workloads]
    try:
        with few_threads(max(one.nbytes for one in facts)):
            contests = race_all(
                contenders_of(judge),
                judge.reference,
                facts,
                modes=wanted,
                seed=judge.draw.getrandbits(48),
                threads=judge.threads,
                processes=processes,
                minimum_effect=minimum_effect,
                gate=gate,
                left_s=limit - (time.monotonic() - began),
            )
    except Found as found:
        evidence = {**checked.evidence, **found.verdict.evidence}
        return dataclasses.replace(found.verdict, evidence=evidence)
    return dataclasses.replace(checked, contests=contests)


def contenders_of(judge: ContractJudge) -> Contenders:
    """How fresh processes of both are had: the candidate's confined, as in the check."""
    target = judge.target

    def open_candidate() -> Performer:
        performer = judge.candidate(keep_pages=True)
        try:
            judge.load(performer)
        except BaseException:
            performer.close()
            raise
        return performer

    def open_baseline() -> Performer:
        performer = Performer(
            Baseline(target.baseline.absolute()),
            template=judge.template,
            deadlines=judge.deadlines,
            keep_pages=True,
        )
        try:
            performer.load(threads=judge.threads)
        except BaseException:
            performer.close()
            raise
        return performer

    return Contenders(target.baseline.name, target.op, open_baseline, open_candidate)


def _mode(name: Mode | str) -> Mode:
    try:
        return Mode(name)
    except ValueError:
        raise UnknownNameError("mode", str(name), [one.value for one in Mode]) from None
