"""What else the machine did while something was measured."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.machine._topology import affinity

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # idle and iowait among the columns of /proc/stat's first line
_STEAL = 7
_COLUMNS = 8  # guest time, in later columns, is part of user time already


@dataclass
class Conditions:
    """The circumstances of a measurement, complete once its block has ended.

    `load_before` and `load_after` are the one-minute load averages. `steal` is the part of the processors'
    time that the hypervisor gave to others, `busy` the part that was used here by anyone; both are None
    where the kernel does not tell, or in a block too short for its clock.
    """

    threads: int
    affinity: tuple[int, ...]
    load_before: float
    load_after: float | None = None
    steal: float | None = None
    busy: float | None = None
    wall_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for records."""
        return {
            "wall_s": self.wall_s,
            "load_before": self.load_before,
            "load_after": self.load_after,
            "steal": self.steal,
            "busy": self.busy,
            "threads": self.threads,
            "affinity": list(self.affinity),
        }


@contextlib.contextmanager
def watch() -> Iterator[Conditions]:
    """Watch the machine while the block runs; what was seen is in the value once the block has ended."""
    cpus = affinity()
    conditions = Conditions(threads=len(cpus), affinity=cpus, load_before=os.getloadavg()[0])
    before = read_ticks()
    started = time.monotonic()
    try:
        yield conditions
    finally:
        conditions.wall_s = time.monotonic() - started
        conditions.load_after = os.getloadavg()[0]
        conditions.busy, conditions.steal = fractions(before, read_ticks())


def read_ticks(path: Path = _STAT) -> list[int] | None:
    """The processors' time by use since boot; None where it is not shown."""
    try:
        with path.open() as stream:
            words = stream.readline().split()
    except OSError:
        return None
    return [int(word) for word in words[1 : 1 + _COLUMNS]] if len(words) > _COLUMNS else None


def fractions(before: list[int] | None, after: list[int] | None) -> tuple[float | None, float | None]:
    """The busy and the stolen fraction of the time between two readings."""
    if before is None or after is None:
        return None, None
    spent = [max(0, late - early) for early, late in zip(before, after, strict=True)]
    total = sum(spent)
    if total == 0:
        return None, None
    idle = sum(spent[column] for column in _IDLE)
    return (total - idle - spent[_STEAL]) / total, spent[_STEAL] / total
