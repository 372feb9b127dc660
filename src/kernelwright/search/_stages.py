"""Objectives in stages: build, look at what was built, measure or skip.

A staged objective is any object with a method `measure`; a worker calls its methods in this order:

    build(configuration) -> built     optional; what raises here is a failure of kind `build_failed`
    features(built) -> mapping        optional; what can be known without running it, kept with the result
    measure(built) -> scores          what an objective returns; `built` is the configuration without `build`

Where the worker has lanes, only `measure` holds one; builds run beside measurements of other devices. Any
stage may raise `Skip` to say that measuring is not worth it, or `StageFailure` to say in a kind of its own
what went wrong. A feature called `identity` (a hash of the machine code, say) tells the worker that what was
built has been measured before: the scores are those, and so is a failure that `lasts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Protocol
from typing import runtime_checkable

IDENTITY = "identity"


class StageFailure(Exception):
    """Raised by a stage: this configuration has no score, for the reason given.

    `kind` is that of the failure: `wrong`, `build_timeout`, …. `lasts`: whether whatever has the same
    identity fails alike, so that it need not be tried. `features` are kept with the result.
    """

    skips_measurement = False

    def __init__(
        self, reason: str, *, kind: str, lasts: bool = False, features: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(reason)
        self.failure_kind = kind
        self.lasts = lasts
        self.features = dict(features or {})


class Skip(StageFailure):
    """Raised by a stage: this configuration is not measured, for the reason given; kind `skipped`."""

    skips_measurement = True

    def __init__(
        self, reason: str = "", *, kind: str = "skipped", features: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(reason, kind=kind, features=features)


@runtime_checkable
class Staged(Protocol):
    """An objective in stages; `build` and `features` may be there too."""

    def measure(self, built: Any, /) -> float | tuple[float, ...]:
        """The scores of what was built."""


class Measured:
    """What came of measuring, by the identity of what was built; two processes may be building the same."""

    def __init__(self) -> None:
        self._known: dict[Any, dict[str, Any]] = {}

    def answer(self, features: Mapping[str, Any]) -> dict[str, Any] | None:
        """The scores or the failure of what has this identity, if it was measured, as a child is told."""
        identity = features.get(IDENTITY)
        return None if identity is None else self._known.get(identity)

    def add(self, said: Mapping[str, Any]) -> None:
        """Take note of what `evaluate` said of a configuration."""
        identity = (said.get("features") or {}).get(IDENTITY)
        if identity is None or (said["failure"] is not None and not said.get("lasts")):
            return
        self._known.setdefault(identity, {"scores": said["scores"], "failure": said["failure"]})
