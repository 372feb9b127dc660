"""Supervision itself: a target is started, watched, and destroyed with all that came from it.

Runs in the process between ours and untrusted work, which is either a program of its own
(`_supervisor.py`) or a fork of a template (`_forkserver.py`). It uses the standard library only, and as
little of that as it can: it runs once for every piece of work. What happened is reported as lines on a pipe:

    supervisor PID                                   this process
    init PID                                         the first process of its PID namespace, if it has one
    started PID                                      the target
    guards JSON                                      what confines the target, just before it runs
    failed ERRNO                                     the target could not be executed
    ended REASON STATUS WALL CPU PEAK OOM            REASON is one of exited, timeout, stopped

STATUS is a wait status, WALL and CPU are seconds, PEAK is the largest resident size in bytes, OOM is 1 when
the kernel killed something for memory meanwhile.
"""

# ruff: noqa: PTH123, SIM105 - pathlib and contextlib would lengthen every start
from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence

    from kernelwright.process import _tree
    from kernelwright.process._confine import Confinement
else:
    import _tree

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
KILL_PATIENCE_S = 5.0
OOM_SCORE = "600"
STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


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


def send(number: int, pid: int, group: bool = False) -> None:
    """Signal a process or a group; one that is gone already is fine."""
    try:
        (os.killpg if group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class Work:
    """The target and all that came from it.

    `pid` is our child: the target itself, or the first process of its PID namespace, which then writes the
    target's status to `told`.
    """

    def __init__(self, pid: int, told: int | None = None) -> None:
        self.pid = pid
        self.status: int | None = None
        self.cpu_s = 0.0
        self.peak_bytes = 0
        self.childless = False
        self._told = told

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
                said = os.read(self._told, 64).strip(b".") if self._told is not None else b""
                self.status = int(said) if said else status

    def destroy(self) -> None:
        """Kill the group, then whatever left it, until nothing is left."""
        deadline = time.monotonic() + KILL_PATIENCE_S
        if not self.childless:
            send(signal.SIGKILL, self.pid, group=True)
        while True:
            self.reap()
            if self.childless or time.monotonic() > deadline:
                return
            send(signal.SIGKILL, self.pid, group=True)
            left = _tree.descendants(os.getpid())
            # Stopped first, they cannot start new ones while the others are being killed.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    send(number, pid)
            time.sleep(0.001)


def close_all_but(keep: Sequence[int]) -> None:
    """Close every descriptor that is not in `keep`."""
    above = -1
    for handle in sorted(set(keep)):
        if handle > above + 1:  # an empty range from 0 would close everything
            os.closerange(above + 1, handle)
        above = handle
    os.closerange(above + 1, os.sysconf("SC_OPEN_MAX"))


def set_limit(which: int, value: int) -> None:
    """Lower a limit, never above what is allowed."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def set_limits(limits: dict[str, str]) -> None:
    """Limit this process and what it starts; no core files in any case."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "cpu" in limits:
        seconds = max(1, int(float(limits["cpu"]) + 0.999))
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        last = seconds + 1 if hard == resource.RLIM_INFINITY else min(seconds + 1, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, last), last))
    if "file" in limits:
        set_limit(resource.RLIMIT_FSIZE, int(limits["file"]))
    if "processes" in limits:
        set_limit(resource.RLIMIT_NPROC, int(limits["processes"]))
    if "memory" in limits:
        set_limit(resource.RLIMIT_AS, int(limits["memory"]))


def default_signals() -> None:
    """Undo what a supervisor or a Python has set, in a new process."""
    signal.set_wakeup_fd(-1)
    for name in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *STOPPING):
        signal.signal(name, signal.SIG_DFL)


def please_the_killer() -> None:
    """Be the first to go when the machine runs out of memory."""
    try:
        with open("/proc/self/oom_score_adj", "w") as stream:
            stream.write(OOM_SCORE)
    except OSError:
        pass


def become(
    target: Callable[[], None],
    limits: dict[str, str],
    report: int,
    confinement: Confinement | None,
    keep: Sequence[int],
) -> None:
    """In the new process: be confined and limited, be the target. Does not return."""
    try:
        os.setpgid(0, 0)
        default_signals()
        please_the_killer()
        if confinement is not None:
            confinement.submit()
            close_all_but([0, 1, 2, report, *keep])
        # Only now: a change of user would clear it.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        set_limits(limits)
        if confinement is not None:
            import json

            os.write(report, b"guards %s\n" % json.dumps(confinement.guards).encode())
        target()
    except OSError as error:
        os.write(report, b"failed %d\n" % (error.errno or 0))
    except BaseException:  # noqa: BLE001 - the target must not become a second supervisor
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(127)


def be_init(start: Callable[[], None], confinement: Confinement, told: int, go: int) -> None:
    """In the first process of a PID namespace: fork the target, collect what ends. Does not return.

    Writes a dot to `told` when the target is there, which waits to read from `go`; its status when it ends.
    With this process all others of the namespace end.
    """
    try:
        os.setpgid(0, 0)
        default_signals()  # whatever has no handler cannot be sent to it from inside
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        confinement.enter()
        target = os.fork()
        if target == 0:
            if os.read(go, 1):
                start()
            os._exit(127)
        prctl(PR_SET_DUMPABLE, 0)
        close_all_but([told])
        os.write(told, b".")
        while True:
            pid, status = os.wait()
            if pid == target:
                os.write(told, b"%d" % status)
                os._exit(0)
    except BaseException:  # noqa: BLE001 - it must not become a second supervisor
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(127)


class Start:
    """The first process: the target itself, or the init of its PID namespace, in which the target waits."""

    def __init__(self, start: Callable[[], None], confinement: Confinement | None) -> None:
        self.told: int | None = None
        self._go: int | None = None
        me = os.getpid()
        if confinement is None or not confinement.own_pids:
            self.pid = os.fork()
            if self.pid == 0:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == me:
                    if confinement is not None:
                        confinement.enter()
                    start()
                os._exit(127)
            self.target: int | None = self.pid
        else:
            self.told, told = os.pipe()
            go, self._go = os.pipe()
            self.pid = os.fork()
            if self.pid == 0:
                os.close(self._go)
                be_init(start, confinement, told, go)
            os.close(told)
            os.close(go)
            self.target = None
        try:
            os.setpgid(self.pid, self.pid)
        except OSError:
            pass  # it did so itself, or is gone

    def go(self) -> int:
        """The target is there: let it run. Its process id, as it is known here."""
        assert self.told is not None
        assert self._go is not None
        below = _tree.descendants(self.pid) if os.read(self.told, 1) else []
        self.target = below[0] if below else self.pid
        try:
            os.write(self._go, b".")
        except BrokenPipeError:
            pass  # it is gone already, as its status will say
        return self.target


def watch(
    work: Work, start: Start, report: int, wakeup: int, lifeline: int, parent: int, deadline: float
) -> str:
    """Wait until the target ends or has to; say why."""
    poll = select.poll()
    if start.told is not None:
        poll.register(start.told, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    try:
        # The pipe alone would miss the parent's death where a fork of the parent holds the other end.
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except ProcessLookupError:
        return "stopped"
    except OSError:
        pass  # no such call on this kernel
    while True:
        work.reap()
        if work.status is not None:
            return "exited"
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout"
        for handle, _ in poll.poll(min(left, 3600.0) * 1000 + 1):
            if handle == start.told:
                poll.unregister(handle)
                os.write(report, b"init %d\nstarted %d\n" % (start.pid, start.go()))
                continue
            if handle != wakeup:
                return "stopped"
            if any(number != signal.SIGCHLD for number in os.read(wakeup, 4096)):
                return "stopped"


def supervise(
    words: dict[str, str],
    handed_on: Sequence[int],
    target: Callable[[], None],
    confinement: Confinement | None = None,
) -> None:
    """Run `target` in a new process under the limits in `words`; return when all of it is dead.

    `words` also names the descriptors `report` and `lifeline`, and `parent`, the process that asked.
    """
    parent, report, lifeline = (int(words.pop(name)) for name in ("parent", "report", "lifeline"))
    wall_s = float(words.pop("wall"))
    os.set_inheritable(report, False)
    os.set_inheritable(lifeline, False)

    wakeup, signalled = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *STOPPING):
        signal.signal(number, lambda *_: None)
    prctl(PR_SET_CHILD_SUBREAPER, 1)

    kills = oom_kills()
    try:
        # Before anything is started: whoever asked may not wait for it any more.
        os.write(report, b"supervisor %d\n" % os.getpid())
    except BrokenPipeError:
        return
    if confinement is not None:
        confinement.leave()
    started = time.monotonic()
    start = Start(lambda: become(target, words, report, confinement, handed_on), confinement)
    work = Work(start.pid, start.told)
    for handle in handed_on:
        os.close(handle)
    try:
        if start.target is not None:
            os.write(report, b"started %d\n" % start.target)
        reason = watch(work, start, report, wakeup, lifeline, parent, started + wall_s)
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
