"""What was measured to be the most that this machine can do; kept by fingerprint, with its spread."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright import settings
from kernelwright.errors import FileFormatError
from kernelwright.machine._machine import fingerprint
from kernelwright.machine._tiers import TIERS

_SCHEMA = "kernelwright.ceilings"
_VERSION = 1
_log = logging.getLogger("kernelwright.machine")


@dataclass(frozen=True)
class Ceiling:
    """One measured limit: the median `value` in `unit`, and its 5th and 95th percentile.

    A bandwidth (`quantity` is `copy` or `read`, unit B/s, all bytes moved counted once each) has a memory
    `level` (`L1`, `L2`, `L3`, `DRAM`) and the `working_set` in bytes; a copy has `stores` (`plain` or
    `nontemporal`) and `reads_per_write` (2 where two streams are read for one written). Arithmetic
    (`quantity` is `flops`, unit FLOP/s, or OP/s for integers) has a `dtype` and the instruction used.
    `tier` is the ISA tier of the probe, `when` the time in ISO 8601.
    """

    quantity: str
    value: float
    p05: float
    p95: float
    unit: str
    threads: int
    tier: str
    when: str
    level: str | None = None
    stores: str | None = None
    reads_per_write: int | None = None
    dtype: str | None = None
    instruction: str | None = None
    working_set: int | None = None

    @property
    def spread(self) -> float:
        """The width of the middle 90% as a fraction of the value."""
        return (self.p95 - self.p05) / self.value


@dataclass(frozen=True)
class Ceilings:
    """All limits measured on a machine, and the conditions under which that was done."""

    fingerprint: str
    entries: tuple[Ceiling, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def copy(
        self, level: str, *, stores: str = "nontemporal", reads_per_write: int = 1, threads: int | None = None
    ) -> Ceiling | None:
        """The copy bandwidth of a memory level, the best of all tiers; `threads` None: the most measured."""
        return self._best("copy", threads, level=level, stores=stores, reads_per_write=reads_per_write)

    def read(self, level: str, *, threads: int | None = None) -> Ceiling | None:
        """The read bandwidth of a memory level, the best of all tiers."""
        return self._best("read", threads, level=level)

    def flops(self, dtype: str, *, tier: str | None = None, threads: int | None = None) -> Ceiling | None:
        """The arithmetic rate for a dtype, of one tier or the best of all."""
        wanted = {"dtype": dtype} if tier is None else {"dtype": dtype, "tier": tier}
        return self._best("flops", threads, **wanted)

    def _best(self, quantity: str, threads: int | None, **wanted: Any) -> Ceiling | None:
        found = [
            entry
            for entry in self.entries
            if entry.quantity == quantity
            and all(getattr(entry, name) == value for name, value in wanted.items())
        ]
        if threads is None:
            threads = max((entry.threads for entry in found), default=0)
        return max(
            (entry for entry in found if entry.threads == threads),
            key=lambda entry: entry.value,
            default=None,
        )


def ceilings_path(name: str | None = None) -> Path:
    """The file that holds the ceilings of a machine, this one by default."""
    return settings.cache_dir() / "machine" / f"{name or fingerprint()}.json"


def store_ceilings(ceilings: Ceilings) -> Path:
    """Keep `ceilings` under their machine's fingerprint; return the file."""
    path = ceilings_path(ceilings.fingerprint)
    payload = {
        "fingerprint": ceilings.fingerprint,
        "conditions": dict(ceilings.conditions),
        "ceilings": [
            {name: value for name, value in asdict(entry).items() if value is not None}
            for entry in ceilings.entries
        ],
    }
    files.write_json(path, _SCHEMA, _VERSION, payload)
    return path


def load_ceilings(name: str | None = None) -> Ceilings | None:
    """What was stored for a machine, this one by default; None when nothing was.

    A file that cannot be read is set aside, which is logged as a warning, and counts as nothing.
    """
    path = ceilings_path(name)
    try:
        found = path.stat()
        return _read(path, found.st_ino, found.st_mtime_ns, found.st_size)
    except FileNotFoundError:
        return None
    except FileFormatError as error:
        kept = files.set_aside(path)
        _log.warning("ceilings could not be read (%s); kept as %s, and to be measured again", error, kept)
        return None


@functools.lru_cache(maxsize=4)
def _read(path: Path, inode: int, mtime_ns: int, size: int) -> Ceilings:
    """The file as it is in that state; reading it anew takes milliseconds, which each race would spend."""
    return _parse(path, files.read_json(path, _SCHEMA, _VERSION))


def _parse(path: Path, document: Mapping[str, Any]) -> Ceilings:
    tiers = {tier.name for tier in TIERS}
    try:
        entries = tuple(Ceiling(**entry) for entry in document["ceilings"])
        for entry in entries:
            if not 0 < entry.p05 <= entry.value <= entry.p95 or entry.tier not in tiers or entry.threads < 1:
                raise FileFormatError(path, f"a ceiling that makes no sense: {entry}")
        return Ceilings(str(document["fingerprint"]), entries, dict(document["conditions"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(path, f"not the fields of ceilings ({error!r})") from error
