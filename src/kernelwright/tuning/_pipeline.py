"""What a tuning run needs done to its candidates: an interface to the real rooms or a stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Protocol

from kernelwright.ops import Workload
from kernelwright.referee import Contest
from kernelwright.referee import Verdict
from kernelwright.space import Configuration
from kernelwright.space import Space


@dataclass(frozen=True)
class Entry:
    """An implementation that takes part: what can be chosen about it, and the tier it is built for."""

    implementation: str
    tier: str
    space: Space


@dataclass(frozen=True)
class Candidate:
    """One implementation in one configuration."""

    implementation: str
    tier: str
    configuration: Configuration


@dataclass(frozen=True)
class Built:
    """A candidate that was built. Two with the same `code_key` are the same machine code."""

    candidate: Candidate
    build_key: str
    code_key: str
    seconds: float
    details: Mapping[str, Any] = field(default_factory=dict)
    handle: Any = None


@dataclass(frozen=True)
class Unbuilt:
    """A candidate that did not build: `build_failed` or `build_timeout`, and the compiler's first lines."""

    candidate: Candidate
    status: str
    reason: str
    seconds: float = 0.0


class Pipeline(Protocol):
    """Builds and judges candidates of one operator. What one does is a verdict, never an exception."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The implementations that take part, the one whose default is the baseline first."""

    def build(self, candidates: Sequence[Candidate]) -> list[Built | Unbuilt]:
        """Build all, in parallel. Never called while something is measured."""

    def check(self, built: Built, workloads: Sequence[Workload], *, seed: int) -> Verdict:
        """Whether it is right, quickly: the full check is part of `confirm`."""

    def race(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        entrants: Mapping[str, Built],
        *,
        budget_s: float,
        seed: int,
    ) -> tuple[Mapping[str, Contest], Mapping[str, Verdict]]:
        """Time all against the baseline, interleaved: contests by name, and verdicts of those without one."""

    def confirm(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        candidate: tuple[str, Built],
        *,
        budget_s: float,
    ) -> Verdict:
        """Check in full and time in a fresh process on fresh data, cold and warm, in both regimes.

        `budget_s` is that of each of the four contests.
        """

    def peers(self, workloads: Sequence[Workload], *, budget_s: float) -> Mapping[str, list[dict[str, Any]]]:
        """Contests of what dispatch now chooses against torch, called from Python, by workload name.

        Workloads that the budget does not allow are left out.
        """

    def provenance(self, implementation: str) -> Mapping[str, str]:
        """What a stored winner of this implementation depends on."""

    def disturbance(self) -> str | None:
        """What else keeps the machine busy right now, in words; None when it is quiet."""

    def close(self) -> None:
        """End every process that was started."""
