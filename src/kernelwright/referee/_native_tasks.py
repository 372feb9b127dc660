"""Whether a child's processes are still: nothing of one contestant may run while another is timed.

What is seen is seen from outside, in /proc and through `Child.cpu_ns`. OpenMP keeps its threads spinning for
a few milliseconds after a parallel region, which is honest, so it is waited for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from kernelwright.process import Child

_SETTLE_S = 0.25
#: Who used so little of it was not let run: threads of OpenMP spin for longer than that.
_WORKED_NS = 20_000_000
_LOOK_S = 0.0002
#: Processor time that a child may use while it ought to be still: for waking up, and the scheduler's ticks.
_FREE_NS = 3_000_000
_SHARE = 0.05
#: How often, how much in all, and what part of the time, before that is said to be no accident.
_FEWEST = 3
_LEAST_NS = 20_000_000
_LEAST_SHARE = 0.08


@dataclass
class Stillness:
    """One child's use of the processors between its own messages."""

    restless: int = 0
    used_ns: int = 0
    passed_ns: int = 0
    unsettled: int = 0
    _child: Child | None = None
    _since: int = 0
    _used_ns: int = 0

    def watch(self, child: Child) -> None:
        """Begin with this child, which should be still now."""
        self._child = child
        self.rest()

    def settle(self) -> None:
        """Wait until no task of the child runs, a quarter of a second at most."""
        deadline = time.perf_counter() + _SETTLE_S
        before = self._child.cpu_ns() if self._child is not None else 0
        while self._child is not None and self._child.runnable():
            if time.perf_counter() > deadline:
                # Threads that others keep off the processor cannot come to the end of their spinning.
                self.unsettled += self._child.cpu_ns() - before > _WORKED_NS
                break
            time.sleep(_LOOK_S)
        self.rest()

    def rest(self) -> None:
        """From now on the child should be still, until `check`."""
        if self._child is not None:
            self._since, self._used_ns = time.perf_counter_ns(), self._child.cpu_ns()

    def check(self) -> None:
        """Note what the child has used since it should be still."""
        if self._child is None:
            return
        passed = time.perf_counter_ns() - self._since
        used = self._child.cpu_ns() - self._used_ns
        self.passed_ns += passed
        self.used_ns += used
        self.restless += used > _FREE_NS + _SHARE * passed

    def blame(self) -> str | None:
        """What to say of a child that worked while it had nothing to do, again and again."""
        enough = self.used_ns > max(_LEAST_NS, _LEAST_SHARE * self.passed_ns)
        if self.restless < _FEWEST or not enough:
            return None
        return (
            f"its processes went on working while others were timed and it was not called: "
            f"{self.used_ns * 1e-6:.0f} ms of processor time in {self.passed_ns * 1e-6:.0f} ms"
        )


def task_state(task: Path) -> str:
    """The letter of a task's state, as proc(5) has it; empty when it is gone."""
    try:
        return task.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
