"""What performers did with time that was not theirs, and what they said of their own: conduct, from numbers.

Pure functions of what the judge measured from outside: the processor time of a performer's processes while
another one was timed, how long it went on working after its block had ended, and what its clock told of each
block. Only the candidate's own processes count, so that other work on the machine accuses nobody; and each
figure is held against the baseline's, which is made by the same means.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Protocol

import numpy as np

from kernelwright.referee._clock import Seen

#: Fewer windows than this say nothing.
LEAST = 5
#: Idle is who uses less than this of a window, and this much beside: waking up to look at a queue or a clock.
_SHARE = 0.1
_SLACK_S = 0.0005
#: Right after calls there is more to be done that is no cheat: what they printed is read, a log written.
_SHARE_AHEAD = 0.3
_SLACK_AHEAD_S = 0.001
#: Windows that were used are held against the candidate when most of them were; or some of them, when all of
#: them together were used as much.
_MOST = 0.7
_SOME = 0.3
#: Clocks disagree where they are apart by this part of a block, and this much for messages and waking up.
_CLOCK_SHARE = 0.1
_CLOCK_SLACK_S = 0.002
_CLOCK_DELAYS = 3.0
_CLOCK_MOST = 0.8
#: Whoever is quiet uses less than this in a look; looks are so long.
_QUIET_S = 0.0001
_LOOK_S = 0.0005


@dataclass(frozen=True)
class Window:
    """Time in which a performer had nothing to do: how long, and how much processor time it used."""

    wall_s: float
    cpu_s: float

    def used(self, share: float = _SHARE, slack_s: float = _SLACK_S) -> bool:
        """Whether more was used than waiting takes."""
        return self.cpu_s > share * self.wall_s + slack_s


@dataclass
class Conduct:
    """What was seen of one performer over a contest.

    `windows`: while another performer was timed. `ahead`: while the judge wrote the contents of its next
    block, which it has nothing to do with yet. `tails`: from the end of each of its own blocks until its
    processes were quiet. `restless`: how often they were not within the grace they were given. `seen`: each
    block on the judge's clock and on its own, messages taken off. `shares`: processor time over time of each
    block; for work that waits for nothing, less than one for each thread means that others were let run.
    `call_ns`: what a call took in each block.
    """

    windows: list[Window] = field(default_factory=list)
    ahead: list[Window] = field(default_factory=list)
    tails: list[Window] = field(default_factory=list)
    restless: int = 0
    seen: list[Seen] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    call_ns: list[float] = field(default_factory=list)

    def facts(self) -> dict[str, float | int | None]:
        """Medians, for the conditions of a contest; milliseconds."""
        return {
            "used_while_waiting_ms": _median_ms([one.cpu_s for one in self.windows]),
            "waited_ms": _median_ms([one.wall_s for one in self.windows]),
            "used_ahead_ms": _median_ms([one.cpu_s for one in self.ahead]),
            "used_after_block_ms": _median_ms([one.cpu_s for one in self.tails]),
            "not_quiet": self.restless,
            "had_processors": _median(self.shares),
            "own_clock": _median([own / wall for wall, own in self.seen if wall > 0]),
        }


def accusation(candidate: Conduct, baseline: Conduct, *, grace_s: float) -> str | None:
    """The words of a `cheated` verdict for how the candidate behaved while it was timed, or None."""
    return (
        burning(candidate, baseline)
        or preparing(candidate, baseline)
        or restless(candidate, baseline, grace_s)
        or clocks(candidate, baseline)
    )


def burning(candidate: Conduct, baseline: Conduct) -> str | None:
    """Whether the candidate used the processor while the baseline was timed."""
    found = _used(candidate.windows, baseline.windows, _SHARE, _SLACK_S)
    return found and f"{found} in which only the baseline had work: it slows the baseline down"


def preparing(candidate: Conduct, baseline: Conduct) -> str | None:
    """Whether the candidate worked on its next inputs while these were still being written."""
    found = _used(candidate.ahead, baseline.ahead, _SHARE_AHEAD, _SLACK_AHEAD_S)
    return found and f"{found} in which its next inputs were written: work was running ahead of the clock"


def _used(windows: Sequence[Window], others: Sequence[Window], share: float, slack_s: float) -> str | None:
    """The start of a sentence, if windows were used mostly, and more than the baseline uses its own."""
    used = [one.used(share, slack_s) for one in windows]
    mine, theirs = _mean_of(windows), _mean_of(others)
    # On a busy machine it is not let run in every window, so what it used in all of them counts as well.
    now_and_then = _mostly(used, _SOME) and mine.cpu_s > share * mine.wall_s
    if not (_mostly(used, _MOST) or now_and_then) or mine.cpu_s < 3.0 * theirs.cpu_s:
        return None
    return (
        f"its processes used {mine.cpu_s * 1e3:.3g} ms of processor time (the baseline's "
        f"{theirs.cpu_s * 1e3:.2g} ms) in each {mine.wall_s * 1e3:.3g} ms, on average,"
    )


def restless(candidate: Conduct, baseline: Conduct, grace_s: float) -> str | None:
    """Whether the candidate's processes went on working after its blocks had ended, time and again."""
    blocks = len(candidate.tails)
    if blocks < LEAST or candidate.restless < _MOST * blocks or baseline.restless * 3 > candidate.restless:
        return None
    used = _median_of(candidate.tails)
    return (
        f"its processes were still working {grace_s:.2g} s after a block of calls had returned, in "
        f"{candidate.restless} of {blocks} blocks ({used.cpu_s * 1e3:.3g} ms of processor time): work was "
        f"left running"
    )


def clocks(candidate: Conduct, baseline: Conduct) -> str | None:
    """Whether the candidate's own clock tells less time than passed here, nearly always, and only its own.

    Between asking and answering lies what a message takes, longer on a busy machine; the baseline's blocks
    tell how long, so that only what is missing beyond that is held against the candidate.
    """
    usual = _median([wall - own for wall, own in baseline.seen]) or 0.0

    def favoured(seen: Seen) -> bool:
        wall, own = seen
        return wall - own > _CLOCK_SHARE * wall + _CLOCK_SLACK_S + _CLOCK_DELAYS * max(usual, 0.0)

    if not _mostly([favoured(one) for one in candidate.seen], _CLOCK_MOST):
        return None
    share = _median([own / wall for wall, own in candidate.seen if wall > 0]) or 0.0
    return f"its clock saw {max(share, 0.0):.0%} of the time that passed here while it ran alone"


class Watched(Protocol):
    """A process that is looked at from outside."""

    def cpu_ns(self) -> int:
        """Processor time used so far."""

    def runnable(self) -> int:
        """Tasks that run or wait for nothing but a processor."""


def wait_quiet(work: Watched, grace_s: float) -> tuple[Window, bool]:
    """Wait until a performer is at rest, `grace_s` seconds at most.

    At rest it is when nothing of it wants a processor, twice in a row, and none was used meanwhile. Either
    alone would not do: processor time stands still between ticks, and a thread may just be asleep between
    two pieces of work. Returns what it used until then, and whether it came to rest. OpenMP's threads spin
    for some milliseconds after a region, some runtimes' for two tenths of a second.
    """
    began = time.perf_counter()
    first = last = work.cpu_ns()
    still = False
    while True:
        time.sleep(_LOOK_S)
        was_still, still = still, work.runnable() == 0
        now = work.cpu_ns()
        wall = time.perf_counter() - began
        window = Window(wall, max(0, now - first) * 1e-9)
        if still and was_still and now - last < _QUIET_S * 1e9:
            return window, True
        if wall > grace_s:
            return window, False
        last = now


def _mostly(found: Sequence[bool], share: float) -> bool:
    return len(found) >= LEAST and sum(found) >= share * len(found)


def _median_of(windows: Sequence[Window]) -> Window:
    if not windows:
        return Window(0.0, 0.0)
    return Window(
        float(np.median([one.wall_s for one in windows])), float(np.median([one.cpu_s for one in windows]))
    )


def _mean_of(windows: Sequence[Window]) -> Window:
    if not windows:
        return Window(0.0, 0.0)
    return Window(
        float(np.mean([one.wall_s for one in windows])), float(np.mean([one.cpu_s for one in windows]))
    )


def _median(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 4) if values else None


def _median_ms(values: Sequence[float]) -> float | None:
    return _median([1e3 * value for value in values])
