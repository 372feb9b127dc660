"""Whether processes are alive, as /proc has it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids: Sequence[int], within_s: float = 5.0) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(map(alive, pids)):
            return True
        time.sleep(0.02)
    return False
