"""Whether processes are alive, as /proc has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids: Sequence[int], within_s: float = 30.0) -> bool:
    """Whether all of them end in time."""
    return soon(lambda: not any(map(alive, pids)), within_s)


def soon(so: Callable[[], bool], within_s: float = 30.0) -> bool:
    """Whether something comes to be in time; on a busy machine nothing is there at once."""
    deadline = time.monotonic() + within_s
    while not so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
