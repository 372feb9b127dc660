"""The referee's words: statuses, comparisons, verdicts and contests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How the judgement of one candidate ended."""

    PASSED = "passed"
    WRONG = "wrong"
    NONDETERMINISTIC = "nondeterministic"
    BUILD_FAILED = "build_failed"
    BUILD_TIMEOUT = "build_timeout"
    CRASHED = "crashed"
    HUNG = "hung"
    OUT_OF_MEMORY = "out_of_memory"
    UNSUPPORTED = "unsupported"
    CHEATED = "cheated"
    IMPOSSIBLE = "impossible"
    NOISY = "noisy"


class Comparison(StrEnum):
    """How a candidate's time stands to its baseline's."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    AMBIGUOUS = "ambiguous"


class Mode(StrEnum):
    """Where the inputs are before a timed call."""

    COLD = "cold"
    """What a call reads has been flushed from all caches; each set of buffers serves one call of a block."""
    WARM = "warm"
    """The same few buffers again and again."""


class Regime(StrEnum):
    """Who provides the output."""

    PREALLOCATED = "preallocated"
    ALLOCATING = "allocating"


@dataclass(frozen=True)
class Timing:
    """Times of one call, nanoseconds, over the samples of one contest."""

    median_ns: float
    p05_ns: float
    p95_ns: float
    samples: int
    relative_sd: float


@dataclass(frozen=True)
class Contest:
    """One candidate against one baseline on one workload, block against block in processes of their own.

    `ratio` is baseline time / candidate time: above one, the candidate is faster. `interval` is the 95%
    block-bootstrap interval of the paired log-ratio, as ratios. `conditions` holds what else the machine did
    meanwhile (load, steal, threads, affinity).
    """

    candidate: str
    baseline: str
    workload: str
    mode: Mode
    regime: Regime
    comparison: Comparison
    ratio: float
    interval: tuple[float, float]
    candidate_time: Timing
    baseline_time: Timing
    blocks: int
    conditions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What the referee says of one candidate.

    `contests` may be there only when `status` is `passed`: a kernel that is not right has no time.
    """

    status: Status
    reason: str
    contests: tuple[Contest, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.contests and self.status is not Status.PASSED:
            raise ValueError(f"a verdict with status {self.status} cannot carry times")
