"""What a bench found: rows, geometric means, and what it all was measured under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from statistics import geometric_mean
from typing import Any

from kernelwright.files import as_plain
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Timing

MODE_MEANING: Mapping[Mode, str] = {
    Mode.COLD: (
        "each call has buffers, weights too, that nobody has touched while a ring of several times the "
        "last-level cache was walked through"
    ),
    Mode.WARM: "the calls of a block use two sets of buffers again and again, touched ahead of the clock",
}
REGIME_MEANING: Mapping[Regime, str] = {
    Regime.ALLOCATING: (
        "every contestant allocates its result at each call, from the C library as it comes; "
        "large results pay for fresh pages, all alike"
    ),
    Regime.PREALLOCATED: (
        "out= is passed to every contestant that has it; one without it allocates, from a heap that keeps "
        "its pages mapped (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_, MALLOC_TOP_PAD_, the same for all)"
    ),
}


@dataclass(frozen=True)
class PeerResult:
    """Ours against one peer in one row; `contest` is None where the peer took no part, with the reason."""

    name: str
    status: Status
    reason: str
    form: str
    contest: Contest | None


@dataclass(frozen=True)
class BenchRow:
    """One operator, workload, mode and regime.

    Contests compare ours (the candidate) with a peer (the baseline): above one, ours is faster. `better` is
    the contest with the peer that leaves ours the smallest ratio, and the row's comparison is that one's.
    `bytes_per_second` is the operator's least traffic over our median time.
    """

    operator: str
    dtype: str
    workload: str
    mode: Mode
    regime: Regime
    status: Status
    reason: str
    form: str
    time: Timing | None
    peers: tuple[PeerResult, ...]
    bytes_per_second: float | None
    ceiling_fraction: float | None
    served_by: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def better(self) -> Contest | None:
        """The contest with the better of the peers."""
        contests = [peer.contest for peer in self.peers if peer.contest is not None]
        return min(contests, key=lambda contest: contest.ratio) if contests else None

    @property
    def comparison(self) -> Comparison | None:
        """The comparison with the better of the peers."""
        better = self.better
        return better.comparison if better else None

    @property
    def ok(self) -> bool:
        """Right, and not slower than the better of the peers."""
        return self.status is Status.PASSED and self.comparison is not Comparison.SLOWER


@dataclass(frozen=True)
class GeometricMean:
    """Over all rows of an operator and dtype that have a contest with `against`."""

    operator: str
    dtype: str
    against: str
    ratio: float
    rows: int


@dataclass(frozen=True)
class BenchReport:
    """All rows of a bench, and what they were measured with."""

    rows: tuple[BenchRow, ...]
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """Whether every row is right and not slower than the better of its peers."""
        return all(row.ok for row in self.rows)

    @property
    def means(self) -> tuple[GeometricMean, ...]:
        """Geometric means of the ratios: against the better peer of each row (`better`), then each peer."""
        found = []
        for operator, dtype in dict.fromkeys((row.operator, row.dtype) for row in self.rows):
            rows = [row for row in self.rows if (row.operator, row.dtype) == (operator, dtype)]
            better = [row.better.ratio for row in rows if row.better]
            if better:
                found.append(GeometricMean(operator, dtype, "better", geometric_mean(better), len(better)))
            for name in dict.fromkeys(peer.name for row in rows for peer in row.peers):
                ratios = [
                    peer.contest.ratio
                    for row in rows
                    for peer in row.peers
                    if peer.name == name and peer.contest
                ]
                if ratios:
                    found.append(GeometricMean(operator, dtype, name, geometric_mean(ratios), len(ratios)))
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = []
        for row in self.rows:
            plain = as_plain(row)
            better = row.better
            plain["better"] = better.baseline if better else None
            plain["comparison"] = better.comparison.value if better else None
            plain["ratio"] = better.ratio if better else None
            plain["interval"] = list(better.interval) if better else None
            rows.append(plain)
        return {
            "ok": self.ok,
            "rows": rows,
            "geometric_means": [as_plain(mean) for mean in self.means],
            "machine": as_plain(self.machine),
            "settings": as_plain(self.settings),
            "meaning": {
                **{mode.value: text for mode, text in MODE_MEANING.items()},
                **{regime.value: text for regime, text in REGIME_MEANING.items()},
            },
        }
