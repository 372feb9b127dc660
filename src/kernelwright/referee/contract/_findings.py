"""What a check looks at and what it has seen: workloads described, evidence gathered."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from kernelwright.errors import UsageError
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import WorkloadFacts

#: Runs of a reference that differ more than this are no rounding: it draws numbers of its own.
_RANDOM_L2 = 1e-3
#: The part of a check's time that describing workloads may take.
_SHARE = 0.3
_LISTED = 12


@dataclass
class Findings:
    """What a check has seen so far; becomes the evidence."""

    cases: int = 0
    calls: int = 0
    refused: list[str] = field(default_factory=list)
    reference_refused: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    operators: tuple[str, ...] = ()
    precision: dict[str, str] = field(default_factory=dict)
    gradient: bool = False

    def evidence(self) -> dict[str, Any]:
        """As it stands in a verdict."""
        return {
            "cases": self.cases,
            "calls": self.calls,
            "refused": self.refused,
            "reference_refused": self.reference_refused,
            "not_checked": _shortened(self.not_checked),
            "notes": list(dict.fromkeys(self.notes)),
            "operators": list(self.operators),
            "oracle": self.precision,
            "gradient": "judged" if self.gradient else "not part of the contract",
        }


def describe(
    reference: Reference,
    findings: Findings,
    *,
    draw: random.Random,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[WorkloadFacts]:
    """What the reference says of its workloads, as many as a part of the time allows, one at least.

    Raises UsageError, also for a reference that gives another result each time.
    """
    contract = reference.contract
    deadline = clock() + _SHARE * budget_s
    found: list[WorkloadFacts] = []
    for name in contract.workloads:
        if found and clock() > deadline:
            findings.not_checked.append(f"workload {name} (out of time)")
            continue
        facts = reference.describe(name, (draw.getrandbits(48), draw.getrandbits(48)))
        if facts.repeats > _RANDOM_L2:
            raise UsageError(
                f"{contract.path}: the reference gives another result each time for the same inputs of "
                f"workload {name!r} (relative L2 {facts.repeats:.2g}); draw in get_inputs(), compute in the "
                f"reference"
            )
        _note(findings, facts)
        found.append(facts)
    return found


def _note(findings: Findings, facts: WorkloadFacts) -> None:
    findings.precision[facts.name] = facts.precision
    findings.gradient |= facts.gradient
    if facts.fixed:
        findings.notes.append(
            f"{facts.name}: get_inputs() returns the same under every seed; elements were changed here"
        )
    if facts.repeats:
        findings.notes.append(f"{facts.name}: the reference itself differs from run to run")
    if not facts.groups:
        findings.not_checked.append(f"{facts.name}: other numbers of rows (the reference takes none)")
    if facts.precision != "fp64":
        findings.notes.append(f"{facts.name}: the reference does not run in fp64; oracle {facts.precision}")


def _shortened(items: Sequence[str]) -> list[str]:
    if len(items) <= _LISTED:
        return list(items)
    return [*items[:_LISTED], f"and {len(items) - _LISTED} more"]
