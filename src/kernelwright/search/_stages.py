"""Objectives in stages: build, look at what was built, measure or skip.

A staged objective is any object with a method `measure`; a worker calls its methods in this order:

    build(configuration) -> built     optional; what raises here is a failure of kind `build_failed`
    features(built) -> mapping        optional; what can be known without running it, kept with the result
    measure(built) -> scores          what an objective returns; `built` is the configuration without `build`

Where the worker has lanes, only `measure` holds one; builds run beside measurements of other devices. Any
stage may raise `Skip` to say that measuring is not worth it. A feature called `identity` (a hash of the
machine code, say) tells the worker that what was built has been measured before: the scores are those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Protocol
from typing import runtime_checkable

IDENTITY = "identity"


class Skip(Exception):
    """Raised by a stage: this configuration is not measured, for the reason given; kind `skipped`."""

    skips_measurement = True


@runtime_checkable
class Staged(Protocol):
    """An objective in stages; `build` and `features` may be there too."""

    def measure(self, built: Any, /) -> float | tuple[float, ...]:
        """The scores of what was built."""


class Measured:
    """Scores by the identity of what was built; two processes may be building the same at once."""

    def __init__(self) -> None:
        self._scores: dict[Any, tuple[float, ...]] = {}

    def scores(self, features: Mapping[str, Any]) -> tuple[float, ...] | None:
        """The scores of what has this identity, if it has been measured."""
        identity = features.get(IDENTITY)
        return None if identity is None else self._scores.get(identity)

    def add(self, features: Mapping[str, Any], scores: tuple[float, ...]) -> None:
        """Take note of a measurement."""
        identity = features.get(IDENTITY)
        if identity is not None:
            self._scores.setdefault(identity, scores)
