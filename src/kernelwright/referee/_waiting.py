"""How long somebody has been waited for, by a clock that stands still while we do; how long we waited."""

from __future__ import annotations

import time
from collections.abc import Callable

from kernelwright.process import own_delayed_ns

#: A wait may end this much late on a busy machine; beyond that we were stopped, as all others may have been.
_LATE_S = 1.0


def kept_waiting_s() -> float:
    """Seconds that this thread has wanted a processor and not had one; 0 where the kernel does not say.

    Whoever is woken while all processors are busy waits for the end of somebody's slice, milliseconds: an
    answer that we wait for seems to come as much later.
    """
    return own_delayed_ns() * 1e-9


class Waiting:
    """Seconds of waiting, from 0 on.

    A deadline is for the one who is waited for. Where this process itself was not let run, because the
    machine was paused or everything on it was stopped, neither was that one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._passed_s = 0.0

    @property
    def passed_s(self) -> float:
        """What had passed at the last look."""
        return self._passed_s

    def look(self, asked_s: float) -> float:
        """What has passed by now; `asked_s` is how long was waited at most since the last look."""
        now = self._clock()
        self._passed_s += min(now - self._last, asked_s + _LATE_S)
        self._last = now
        return self._passed_s
