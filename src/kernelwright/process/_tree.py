"""Processes seen from outside, through /proc: who descends from whom, and what they have used.

Used on both sides: by this room as part of the package, and by the supervisor as a file beside it.
"""

# ruff: noqa: PTH123, PTH208 - pathlib would lengthen every start of a supervisor
from __future__ import annotations

import os
import time

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of linux/posix-timers.h: all threads of a process, ended ones too


def descendants(root: int) -> list[int]:
    """All processes below `root`, nearest first; `root` is not among them."""
    found: list[int] = []
    frontier = [root]
    while frontier:
        below = [child for pid in frontier for child in _children(pid)]
        if frontier == [root] and not below and not os.path.exists(f"/proc/{root}/task/{root}/children"):  # noqa: PTH110
            return _descendants_by_parent(root)
        frontier = [pid for pid in below if pid not in found]
        found.extend(frontier)
    return found


def cpu_ns(pids: list[int]) -> int:
    """Nanoseconds of processor time that these processes and the children they waited for have used.

    Live processes are read to the nanosecond, with all threads that they ever had, up to the last
    scheduler tick (a few milliseconds) of those that are on a processor now; children that have been
    waited for are known to clock ticks (10 ms). Processes that are gone count nothing.
    """
    total = 0
    for pid in pids:
        try:
            total += time.clock_gettime_ns((~pid << 3) | _PROCESS_CLOCK)
        except OSError:
            continue
        total += waited_ns(pid)
    return total


def waited_ns(pid: int) -> int:
    """Nanoseconds, in clock ticks, that the children which a process has waited for had used."""
    try:
        fields = _stat(pid)
    except OSError:
        return 0
    return (int(fields[13]) + int(fields[14])) * _TICK_NS if len(fields) > 14 else 0


def threads(pids: list[int]) -> int:
    """How many live tasks these processes have; zombies are not alive."""
    total = 0
    for pid in pids:
        try:
            fields = _stat(pid)
        except OSError:
            continue
        if fields and fields[0] not in "ZX":
            total += int(fields[17])
    return total


def runnable(pids: list[int]) -> int:
    """How many tasks of these processes run, or wait for nothing but a processor.

    Unlike processor time this is known at once: `cpu_ns` stands still between ticks for a thread that is on
    a processor, and for one that the scheduler keeps waiting.
    """
    total = 0
    for pid in pids:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                total += _stat(pid, f"task/{task}/")[0] == "R"
            except OSError:
                continue
    return total


def delayed_ns(pids: list[int]) -> int:
    """Nanoseconds that the live tasks of these processes have wanted a processor and not had one.

    Zero where the kernel does not say (CONFIG_SCHED_INFO).
    """
    total = 0
    for pid in pids:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        total += sum(task_delayed_ns(pid, task) for task in tasks)
    return total


def task_delayed_ns(pid: int, task: int | str) -> int:
    """The same of one task; zero when it is gone."""
    return _delayed_ns(f"/proc/{pid}/task/{task}")


def own_delayed_ns() -> int:
    """The same of the thread that asks."""
    return _delayed_ns("/proc/thread-self")


def _delayed_ns(task: str) -> int:
    try:
        with open(f"{task}/schedstat") as stream:
            return int(stream.read().split()[1])
    except (OSError, IndexError):
        return 0


def _stat(pid: int, task: str = "") -> list[str]:
    """The fields of /proc/PID/stat from the state on; the name in front may contain anything."""
    with open(f"/proc/{pid}/{task}stat") as stream:
        return stream.read().rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as stream:
                found.extend(map(int, stream.read().split()))
    except OSError:
        pass  # it ended meanwhile, or this kernel has no such files
    return found


def _descendants_by_parent(root: int) -> list[int]:
    """The same from the parent of every process, for kernels without CONFIG_PROC_CHILDREN."""
    table = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                table[int(name)] = int(_stat(int(name))[1])
            except (OSError, IndexError, ValueError):
                continue
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in table.items() if parent in frontier and pid not in found}
        found.extend(frontier)
    return found
