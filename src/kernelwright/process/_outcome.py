"""The words of this room: limits, ends and outcomes."""

from __future__ import annotations

import signal as signals
from dataclasses import dataclass
from enum import StrEnum

TAIL_BYTES = 64 * 1024
"""How much of the end of each output stream is kept."""


@dataclass(frozen=True)
class Limits:
    """What a piece of work may use at most; beyond it, the work is killed.

    `wall_s` counts from the start of the work itself. `memory_bytes` limits the address space of each process
    (RLIMIT_AS), `cpu_s` the processor time of each, `file_bytes` the size of each file written, `processes`
    the number of the user's processes (RLIMIT_NPROC, which Linux does not apply to root).
    """

    wall_s: float
    memory_bytes: int | None = None
    cpu_s: float | None = None
    file_bytes: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for name in ("wall_s", "memory_bytes", "cpu_s", "file_bytes", "processes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"limit {name} is {value!r}; it has to be above zero")


class End(StrEnum):
    """How a piece of work ended."""

    EXITED = "exited"
    """By itself, with a return code."""
    SIGNALLED = "signalled"
    """By a signal that neither a limit nor we sent: a crash."""
    TIMED_OUT = "timed_out"
    """At its limit of wall or processor time."""
    OUT_OF_MEMORY = "out_of_memory"
    """It could not get the memory it asked for, or the kernel killed it for what it had."""
    STOPPED = "stopped"
    """By us, on request."""


@dataclass(frozen=True)
class Outcome:
    """What became of a piece of work.

    `stdout` and `stderr` are the last `TAIL_BYTES` of each. `returncode` is set when it exited by itself,
    `signal` when a signal ended it. `wall_s` and `cpu_s` are seconds, the latter with all its children;
    `peak_bytes` is the largest resident size of one of its processes.
    """

    end: End
    returncode: int | None
    signal: int | None
    stdout: str
    stderr: str
    wall_s: float
    cpu_s: float = 0.0
    peak_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether it exited by itself with return code 0."""
        return self.end is End.EXITED and self.returncode == 0

    def describe(self) -> str:
        """One line for a person: how it ended, and the last thing it said on stderr."""
        said = self.stderr.strip().splitlines()
        last = f": {said[-1]}" if said else ""
        if self.end is End.EXITED:
            return f"exited with code {self.returncode}{last if self.returncode else ''}"
        if self.end is End.SIGNALLED:
            return f"ended by {_signal_name(self.signal)}{last}"
        if self.end is End.TIMED_OUT:
            return f"killed at its time limit after {self.wall_s:.3g} s{last}"
        if self.end is End.OUT_OF_MEMORY:
            return f"out of memory{last}"
        return f"stopped after {self.wall_s:.3g} s"


def _signal_name(number: int | None) -> str:
    try:
        return signals.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


_MEMORY_MARKS = (
    "MemoryError",
    "std::bad_alloc",
    "libgomp: Out of memory",
    "virtual memory exhausted",
    "out of memory allocating",
    "Cannot allocate memory",
    "can't allocate memory",
)


def classify(
    reason: str, status: int, stderr: str, *, oom_killed: bool, cpu_s: float, limits: Limits
) -> tuple[End, int | None, int | None]:
    """The end, return code and signal of work that the supervisor says ended for `reason` with `status`."""
    signal = status & 0x7F or None
    code = None if signal else (status >> 8) & 0xFF
    if reason == "timeout":
        return End.TIMED_OUT, None, signal
    if reason == "stopped":
        return End.STOPPED, None, signal
    if signal is None and code == 0:
        return End.EXITED, 0, None
    if signal == signals.SIGXCPU or (
        signal == signals.SIGKILL and limits.cpu_s is not None and cpu_s >= limits.cpu_s
    ):
        return End.TIMED_OUT, None, signal
    # A compiler driver exits with a code when the kernel kills its compiler proper, and says so.
    if oom_killed and (signal == signals.SIGKILL or "Killed" in stderr):
        return End.OUT_OF_MEMORY, code, signal
    if any(mark in stderr for mark in _MEMORY_MARKS):
        return End.OUT_OF_MEMORY, code, signal
    return (End.EXITED, code, None) if signal is None else (End.SIGNALLED, None, signal)
