"""What else the machine did while something was measured."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from kernelwright.machine._topology import affinity

_STAT = Path("/proc/stat")
_CPUS = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
_PRESSURE = Path("/proc/pressure/cpu")
_IDLE = (3, 4)  # idle and iowait among the columns of /proc/stat's first line
_STEAL = 7
_COLUMNS = 8  # guest time, in later columns, is part of user time already
_THROTTLES = ("core_throttle_count", "package_throttle_count")


@dataclass
class Conditions:
    """The circumstances of a measurement, complete once its block has ended.

    `load_before` and `load_after` are the one-minute load averages. `steal` is the part of the processors'
    time that the hypervisor gave to others, `busy` the part that was used here by anyone; both are None
    where the kernel does not tell, or in a block too short for its clock. `pressure` is the part of the time
    in which some task of the machine waited for a processor; `mhz_before` and `mhz_after` are the median
    clock rate of the processors used; `throttled` is how often they slowed down because of heat. `missing`
    says which of these this machine does not tell, and why.
    """

    threads: int
    affinity: tuple[int, ...]
    load_before: float
    load_after: float | None = None
    steal: float | None = None
    busy: float | None = None
    pressure: float | None = None
    mhz_before: float | None = None
    mhz_after: float | None = None
    throttled: int | None = None
    wall_s: float | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for records."""
        return {
            "wall_s": self.wall_s,
            "load_before": self.load_before,
            "load_after": self.load_after,
            "steal": self.steal,
            "busy": self.busy,
            "pressure": self.pressure,
            "mhz_before": self.mhz_before,
            "mhz_after": self.mhz_after,
            "throttled": self.throttled,
            "threads": self.threads,
            "affinity": list(self.affinity),
            "missing": dict(self.missing),
        }


@contextlib.contextmanager
def watch() -> Iterator[Conditions]:
    """Watch the machine while the block runs; what was seen is in the value once the block has ended."""
    cpus = affinity()
    conditions = Conditions(threads=len(cpus), affinity=cpus, load_before=os.getloadavg()[0])
    conditions.mhz_before = read_mhz(cpus)
    throttles = read_throttles(cpus)
    waited = read_pressure_us()
    before = read_ticks()
    started = time.monotonic()
    try:
        yield conditions
    finally:
        conditions.wall_s = time.monotonic() - started
        conditions.load_after = os.getloadavg()[0]
        conditions.busy, conditions.steal = fractions(before, read_ticks())
        conditions.mhz_after = read_mhz(cpus)
        late, hot = read_pressure_us(), read_throttles(cpus)
        if waited is not None and late is not None and conditions.wall_s > 0:
            conditions.pressure = min(1.0, max(0, late - waited) * 1e-6 / conditions.wall_s)
        if throttles is not None and hot is not None:
            conditions.throttled = hot - throttles
        conditions.missing = _missing(conditions)


def _missing(conditions: Conditions) -> dict[str, str]:
    said = {
        "steal": f"{_STAT} is not shown, or its clock did not tick",
        "pressure": f"the kernel has no {_PRESSURE}",
        "mhz_after": f"neither cpufreq nor {_CPUINFO} tells a clock rate",
        "throttled": f"no thermal_throttle counters under {_CPUS}, as in most virtual machines",
    }
    found = {name: why for name, why in said.items() if getattr(conditions, name) is None}
    if "mhz_after" in found:
        found["mhz"] = found.pop("mhz_after")
    return found


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


def read_mhz(cpus: Sequence[int], folder: Path = _CPUS, cpuinfo: Path = _CPUINFO) -> float | None:
    """The median clock rate of these processors in MHz, from cpufreq or else /proc/cpuinfo.

    In a virtual machine /proc/cpuinfo often holds a nominal rate that never moves. None: not told.
    """
    rates = []
    for cpu in cpus:
        said = _number(folder / f"cpu{cpu}" / "cpufreq" / "scaling_cur_freq")
        if said is not None:
            rates.append(said / 1000.0)
    if not rates:
        rates = _cpuinfo_mhz(cpus, cpuinfo)
    return sorted(rates)[len(rates) // 2] if rates else None


def read_throttles(cpus: Sequence[int], folder: Path = _CPUS) -> int | None:
    """How often these processors and their packages have slowed down because of heat, since boot."""
    counts = [
        _number(folder / f"cpu{cpu}" / "thermal_throttle" / name) for cpu in cpus for name in _THROTTLES
    ]
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known else None


def read_pressure_us(path: Path = _PRESSURE) -> int | None:
    """Microseconds since boot in which some task waited for a processor; None without PSI."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("some") and "total=" in line:
            return int(line.rpartition("total=")[2])
    return None


def _cpuinfo_mhz(cpus: Sequence[int], path: Path) -> list[float]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    rates: dict[int, float] = {}
    cpu = -1
    for line in lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "processor" and value.isdigit():
            cpu = int(value)
        elif name == "cpu MHz":
            rates[cpu] = float(value)
    return [rates[cpu] for cpu in cpus if cpu in rates]


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
