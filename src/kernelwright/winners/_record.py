"""One winner: what was proven for one bucket of one operator on one machine."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from typing import Any

#: The key in a configuration under which compiler options are, one word of the command line a line.
CONTROLS = "controls"
#: What a proof with compiler options holds for, and has to say, where it can be known.
_NEEDED = ("source", "compiler", "architecture", "driver")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Record:
    """A confirmed candidate.

    Attributes:
        operator: its operator.
        bucket: the group of calls it was proven for, such as `bf16-rows32-hidden4096`.
        machine: fingerprint of the machine it was proven on.
        implementation: name of the implementation in the registry.
        configuration: values of its tunables, and perhaps `controls`: options of its compiler.
        provenance: what the proof depends on besides the machine: `source` (hash), `compiler` (version),
            `architecture`, `driver`.
        evidence: what the referee measured: ratios with intervals, run, artifact hashes.
        created: when, UTC, ISO 8601.
    """

    operator: str
    bucket: str
    machine: str
    implementation: str
    configuration: Mapping[str, int | float | str | bool]
    provenance: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    created: str = field(default_factory=_now)

    def outdated(self, provenance: Mapping[str, str]) -> str | None:
        """Why this record no longer holds where `provenance` does, or None.

        Compares what both state: a machine without a compiler may use a winner whose artifact it has. With
        compiler options, what it does not state counts as another: they mean something to one compiler alone.
        """
        for name in _NEEDED if self.configuration.get(CONTROLS) else ():
            if name in provenance and name not in self.provenance:
                return f"it does not say with which {name} its compiler options were proven"
        for name, value in provenance.items():
            proven = self.provenance.get(name)
            if proven is not None and proven != value:
                return f"it was proven with {name} {_short(proven)}, here is {_short(value)}"
        return None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:12]}…"
