"""How many configurations, how many binaries: what a search over controls comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any

from kernelwright.search import Evaluation


@dataclass(frozen=True)
class Counts:
    """Of the `evaluations`: those that `built`, the `distinct` binaries they gave, those that were not
    measured because the same code had been (`reused`), and the failures by kind, `pruned` among them."""

    evaluations: int = 0
    built: int = 0
    reused: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    code_keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, evaluations: Iterable[Evaluation]) -> Counts:
        """The counts of a run, from what its journal keeps. Repeated baselines are left out."""
        counts = cls()
        for one in evaluations:
            if one.baseline and one.origin == "baseline":
                continue
            features: Mapping[str, Any] = one.metadata.get("features") or {}
            key = features.get("identity")
            reused = bool(one.metadata.get("reused"))
            if one.failure is None:
                counts = counts.with_score(key, reused=reused)
            else:
                counts = counts.with_failure(one.failure.kind, key, reused=reused)
        return counts

    @property
    def distinct(self) -> int:
        """How many different binaries."""
        return len(self.code_keys)

    @property
    def pruned(self) -> int:
        """How many were shut out by a constraint on the binary, with no run."""
        return self.failures.get("pruned", 0)

    def with_score(self, key: str | None, *, reused: bool) -> Counts:
        """These and one more that has a score."""
        return replace(
            self,
            evaluations=self.evaluations + 1,
            built=self.built + (key is not None),
            reused=self.reused + reused,
            code_keys=self.code_keys | ({key} if key is not None else set()),
        )

    def with_failure(self, kind: str, key: str | None, *, reused: bool) -> Counts:
        """These and one more that has none; `key` where it was built."""
        more = Counter(self.failures)
        more[kind] += 1
        return replace(self.with_score(key, reused=reused), failures=dict(more))

    def __str__(self) -> str:
        """`612 of 1,000 configurations gave 41 distinct binaries; …`."""
        said = [
            f"{self.built:,} of {self.evaluations:,} configurations gave {self.distinct:,} distinct binaries"
        ]
        if self.reused:
            said.append(f"{self.reused:,} shared a verdict")
        said += [f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(self.failures.items())]
        return "; ".join(said)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "evaluations": self.evaluations,
            "built": self.built,
            "distinct": self.distinct,
            "reused": self.reused,
            "failures": dict(self.failures),
        }
