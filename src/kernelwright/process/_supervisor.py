"""The process between this one and untrusted work; run as `python -I -S _supervisor.py`, never imported.

It starts the target in a process group of its own, adopts what the target leaves behind (it is a subreaper),
and kills all of it when the target ends, when time is up, when told to, and when its own parent dies by any
means. It uses the standard library only, and as little of that as it can: it runs once for every piece of
work. What happened is reported as lines on a pipe:

    started PID
    failed ERRNO                                     the target could not be executed
    ended REASON STATUS WALL CPU PEAK OOM            REASON is one of exited, timeout, stopped

STATUS is a wait status, WALL and CPU are seconds, PEAK is the largest resident size in bytes, OOM is 1 when
the kernel killed something for memory meanwhile.
"""

# ruff: noqa: PTH123, PTH208, SIM105 - pathlib and contextlib would lengthen every start
from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_PATIENCE_S = 5.0
OOM_SCORE = "600"


def prctl(option: int, value: int) -> None:
    """Set a process control; a kernel that does not know it is no reason to fail."""
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def oom_kills() -> int:
    """How often the kernel has killed for memory here: our control group's count, else the system's."""
    total = 0
    for path in (*memory_event_files(), "/proc/vmstat"):
        try:
            with open(path) as stream:
                for line in stream:
                    if line.startswith("oom_kill "):
                        total += int(line.split()[1])
        except OSError:
            continue
    return total


def memory_event_files() -> list[str]:
    """The files that count out-of-memory kills of this process's control group."""
    paths = []
    try:
        with open("/proc/self/cgroup") as stream:
            for line in stream:
                _, controllers, group = line.rstrip("\n").split(":", 2)
                if controllers == "":
                    paths.append(f"/sys/fs/cgroup{group}/memory.events")
                elif "memory" in controllers.split(","):
                    paths.append(f"/sys/fs/cgroup/memory{group}/memory.oom_control")
    except OSError:
        pass
    return paths


def parents() -> dict[int, int]:
    """The parent of every process that can be seen."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stream:
                    table[int(name)] = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
    return table


def descendants() -> list[int]:
    """All processes below this one."""
    try:
        table = parents()
    except OSError:
        return []
    found: list[int] = []
    frontier = {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in table.items() if parent in frontier and pid not in found}
        found.extend(frontier)
    return found


def send(number: int, pid: int, group: bool = False) -> None:
    """Signal a process or a group; one that is gone already is fine."""
    try:
        (os.killpg if group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class Work:
    """The target and all that came from it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self.cpu_s = 0.0
        self.peak_bytes = 0
        self.childless = False

    def reap(self) -> None:
        """Collect every child that has ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            self.cpu_s += usage.ru_utime + usage.ru_stime
            self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss * 1024)
            if pid == self.pid:
                self.status = status

    def destroy(self) -> None:
        """Kill the group, then whatever left it, until nothing is left."""
        deadline = time.monotonic() + KILL_PATIENCE_S
        send(signal.SIGKILL, self.pid, group=True)
        while True:
            self.reap()
            if self.childless or time.monotonic() > deadline:
                return
            send(signal.SIGKILL, self.pid, group=True)
            left = descendants()
            # Stopped first, they cannot start new ones while the others are being killed.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    send(number, pid)
            time.sleep(0.001)


def set_limit(which: int, value: int) -> None:
    """Lower a limit, never above what is allowed."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def become(argv: list[str], limits: dict[str, str], report: int, parent: int) -> None:
    """In the new process: be limited, be the target. Does not return."""
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        for name in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGINT,
            signal.SIGCHLD,
        ):
            signal.signal(name, signal.SIG_DFL)
        try:
            with open("/proc/self/oom_score_adj", "w") as stream:
                stream.write(OOM_SCORE)
        except OSError:
            pass
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if "cpu" in limits:
            seconds = max(1, int(float(limits["cpu"]) + 0.999))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        if "file" in limits:
            set_limit(resource.RLIMIT_FSIZE, int(limits["file"]))
        if "processes" in limits:
            set_limit(resource.RLIMIT_NPROC, int(limits["processes"]))
        if "memory" in limits:
            set_limit(resource.RLIMIT_AS, int(limits["memory"]))
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(report, b"failed %d\n" % (error.errno or 0))
    finally:
        os._exit(127)


def watch(work: Work, wakeup: int, lifeline: int, parent: int, deadline: float) -> str:
    """Wait until the target ends or has to; say why."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    try:
        # The pipe alone would miss the parent's death where a fork of the parent holds the other end.
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except OSError:
        pass
    if os.getppid() != parent:
        return "stopped"
    while True:
        work.reap()
        if work.status is not None:
            return "exited"
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout"
        for handle, _ in poll.poll(min(left, 3600.0) * 1000 + 1):
            if handle != wakeup:
                return "stopped"
            if any(number != signal.SIGCHLD for number in os.read(wakeup, 4096)):
                return "stopped"


def main() -> None:
    """Read the words on the command line, supervise, report."""
    split = sys.argv.index("--")
    words = dict(word.split("=", 1) for word in sys.argv[1:split])
    argv = sys.argv[split + 1 :]
    parent, report, lifeline = (int(words.pop(name)) for name in ("parent", "report", "lifeline"))
    wall_s = float(words.pop("wall"))
    handed_on = [int(number) for number in words.pop("handed_on").split(",") if number]
    os.set_inheritable(report, False)
    os.set_inheritable(lifeline, False)

    wakeup, signalled = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    prctl(PR_SET_CHILD_SUBREAPER, 1)

    kills = oom_kills()
    started = time.monotonic()
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(argv, words, report, me)
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass  # it did so itself, or is gone
    work = Work(pid)
    for handle in handed_on:
        os.close(handle)
    try:
        os.write(report, b"started %d\n" % pid)
        reason = watch(work, wakeup, lifeline, parent, started + wall_s)
    except BrokenPipeError:
        reason = "stopped"
    finally:
        wall = time.monotonic() - started
        work.destroy()
    status = signal.SIGKILL if work.status is None else work.status
    oom = int(oom_kills() > kills)
    line = f"ended {reason} {int(status)} {wall:.6f} {work.cpu_s:.6f} {work.peak_bytes} {oom}\n"
    try:
        os.write(report, line.encode())
    except BrokenPipeError:
        pass  # nobody is left to be told


main()
