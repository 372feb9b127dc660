"""Whether a child's processes are still: nothing of one contestant may run while another is timed.

What is seen is seen from outside, in /proc and through `Child.cpu_ns`. OpenMP keeps its threads spinning for
a few milliseconds after a parallel region, which is honest, so it is waited for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from kernelwright.process import Child

_SETTLE_S = 0.25
_LOOK_S = 0.0002
#: Time that a child may use while it ought to be still: of its own waking up and the scheduler's ticks.
_FREE_NS = 3_000_000
_SHARE = 0.05


@dataclass
class Stillness:
    """One child's use of the processors between its batches."""

    turns: int = 0
    restless: list[float] = field(default_factory=list)
    unsettled: int = 0
    _child: Child | None = None
    _since: float = 0.0
    _used_ns: int = 0

    def watch(self, child: Child) -> None:
        """Begin with this child, which should be still now."""
        self._child = child
        self.rest()

    def settle(self) -> None:
        """Wait until no task of the child runs, a quarter of a second at most."""
        deadline = time.perf_counter() + _SETTLE_S
        while self._child is not None and runs(self._child.pid):
            if time.perf_counter() > deadline:
                self.unsettled += 1
                break
            time.sleep(_LOOK_S)
        self.rest()

    def rest(self) -> None:
        """From now on the child should be still."""
        if self._child is not None:
            self._since, self._used_ns = time.perf_counter(), self._child.cpu_ns()

    def check(self) -> None:
        """Note what the child has used since it should be still."""
        if self._child is None:
            return
        passed = (time.perf_counter() - self._since) * 1e9
        used = self._child.cpu_ns() - self._used_ns
        self.turns += 1
        if used > _FREE_NS + _SHARE * passed:
            self.restless.append(used / passed)

    def blame(self) -> str | None:
        """What to say of a child that worked in at least half of the turns of others, three at least."""
        if len(self.restless) < max(3, self.turns // 2):
            return None
        share = sorted(self.restless)[len(self.restless) // 2]
        return (
            f"its processes went on working while the others were timed: {share:.0%} of a processor's time, "
            f"in {len(self.restless)} of {self.turns} turns"
        )


def runs(pid: int | None) -> bool:
    """Whether any task of a process is running or ready to run."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False
    return any(_state(task) == "R" for task in tasks)


def _state(task: Path) -> str:
    try:
        return task.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
