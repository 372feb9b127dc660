"""How a sandbox is enforced, by the processes between ours and the target; standard library only.

The supervisor leaves for new user and PID namespaces, whose first process (a small init) builds the mounts
and forks the target, which gives up its user and its powers just before it runs. Whatever the system refuses
is noted in `guards` and the child starts all the same: a name with an empty text is a guard that holds.
"""

# ruff: noqa: PTH101, PTH102, PTH109, PTH116, PTH120, PTH123 - pathlib would lengthen every start
from __future__ import annotations

import json
import os
import resource
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.process import _kernel
    from kernelwright.process import _mounts
else:
    import _kernel
    import _mounts

GUARDS = (
    *("process_group", "user", "capabilities", "pid_namespace", "mount_namespace", "read_only", "network"),
    *("memory", "files", "cpu", "processes", "descriptors", "scratch"),
)
OPEN_FILES = 1024
STRANGERS = 0x6B770000  # users of this number and above are nobody's, on any system that is known

STRANGER = "stranger"  # a user of its own, given by root
MAPPED = "mapped"  # the user that started it, in a user namespace of its own
POWERLESS = "powerless"  # root without capabilities, where another user could not read the interpreter
SAME = "same"  # the user that started it


class Confinement:
    """One sandbox; the first line of each method says in which process it is called.

    `asked` is what `Sandbox.words` wrote. `own_pids` says, after `leave`, whether the next process that is
    forked is the first of a new PID namespace.
    """

    def __init__(self, asked: str, limits: dict[str, str]) -> None:
        wanted = json.loads(asked)
        self.scratch: str = wanted["scratch"]
        self.hidden: list[str] = wanted["hidden"]
        self.readable: list[str] = wanted["readable"]
        self.processes: int = min(wanted["processes"], int(limits.get("processes", wanted["processes"])))
        self.memory_bytes: int | None = int(limits["memory"]) if "memory" in limits else None
        self.guards = dict.fromkeys(GUARDS, "")
        self.own_pids = False
        self.identity = SAME
        self.folder = os.getcwd()
        self.starter = os.geteuid()
        for guard, limit in (("memory", "memory"), ("files", "file"), ("cpu", "cpu")):
            if limit not in limits:
                self.miss("no limit was asked for", guard)

    def miss(self, reason: str, *guards: str) -> None:
        """Note why guards are missing; the first reason stays."""
        for guard in guards:
            self.guards[guard] = self.guards[guard] or reason

    def attempt(self, what: str, action: Callable[[], None], *guards: str) -> bool:
        """Do it, or note that the system refused `what`, which the guards need; say whether it was done."""
        try:
            action()
        except OSError as error:
            self.miss(f"{what} was refused: {error.strerror}", *guards)
            return False
        return True

    def leave(self) -> None:
        """In the supervisor: let the next process be in a new PID namespace; choose the user."""
        root = self.starter == 0
        group = os.getegid()
        if root and quietly(lambda: _kernel.unshare(_kernel.CLONE_NEWPID)):
            self.own_pids, self.identity = True, STRANGER
        elif quietly(lambda: _kernel.unshare(_kernel.CLONE_NEWUSER | _kernel.CLONE_NEWPID)):
            self.own_pids, self.identity = True, MAPPED
        elif quietly(lambda: _kernel.unshare(_kernel.CLONE_NEWUSER)):
            self.identity = MAPPED
        elif root:
            self.identity = STRANGER
        if not self.own_pids:
            self.miss("a PID namespace was refused, so it sees other processes", "pid_namespace")
        if self.identity == MAPPED:
            # Not as root in there: who executes a program as root gets back what he gave up.
            self._map_users(self.starter or 1000, self.starter, group or 1000, group)
        # The scratch folder itself is given to it; on the way there it has to get by itself.
        way = os.path.dirname(self.scratch)
        self.closed = unreadable(self.readable, way) if self.identity == STRANGER else None
        if self.identity in (MAPPED, SAME):
            who = f"the user that started it ({self.starter})"
            self.miss(f"it runs as {who}; only root can change that", "user")
        elif self.closed is not None and not _kernel.has_capability(_kernel.CAP_DAC_READ_SEARCH):
            self.identity = POWERLESS
            reason = f"another user could not read {self.closed}; it runs as root, without capabilities"
            self.miss(reason, "user")
        self.sockets = _mounts.sockets()
        self.uid = stranger(os.getpid()) if self.identity == STRANGER else self.starter
        self._give_scratch()
        # Nobody of the same user may trace this process or what it forks.
        quietly(lambda: _kernel.prctl(_kernel.PR_SET_DUMPABLE, 0))

    def enter(self) -> None:
        """In the init (in the target, if there is none): enter the other namespaces and build the mounts."""
        self.attempt("a network namespace", lambda: _kernel.unshare(_kernel.CLONE_NEWNET), "network")
        quietly(lambda: _kernel.unshare(_kernel.CLONE_NEWIPC | _kernel.CLONE_NEWUTS))
        guards = ("mount_namespace", "read_only", "scratch")
        if self.attempt("a mount namespace", lambda: _kernel.unshare(_kernel.CLONE_NEWNS), *guards):
            _mounts.build(self)

    def submit(self) -> None:
        """In the target: give up user, groups and powers, and be limited."""
        os.chdir(self.folder)  # by its path: the scratch folder is another mount now
        if self.identity == STRANGER:
            self._change_user()
        elif self.identity != SAME:
            _kernel.bound_capabilities(None)
            _kernel.set_capabilities(None)
        self.attempt("no_new_privs", lambda: _kernel.prctl(_kernel.PR_SET_NO_NEW_PRIVS, 1), "capabilities")
        if self.guards["capabilities"]:
            try:
                _kernel.forbid_opening_by_handle()
            except (OSError, NotImplementedError) as error:
                self.guards["capabilities"] += f"; hidden files could be opened by handle ({error})"
        # Without this its own /proc/self would belong to root.
        quietly(lambda: _kernel.prctl(_kernel.PR_SET_DUMPABLE, 1))
        self._limit()

    def _map_users(self, inside: int, outside: int, inside_group: int, outside_group: int) -> None:
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{inside} {outside} 1"),
            ("gid_map", f"{inside_group} {outside_group} 1"),
        ):
            try:
                with open(f"/proc/self/{name}", "w") as stream:
                    stream.write(line)
            except OSError as error:
                self.miss(f"its user could not be mapped (/proc/self/{name}: {error.strerror})", "user")

    def _give_scratch(self) -> None:
        """Make the folders that the environment names, and give all of the scratch folder to the target.

        What an earlier child left there is given too, but never followed: it may be a link to anywhere.
        """
        try:
            for path in (self.scratch, f"{self.scratch}/tmp", f"{self.scratch}/cache"):
                if not os.path.lexists(path):
                    os.mkdir(path, 0o700)
            if self.identity == STRANGER:
                os.chown(self.scratch, self.uid, self.uid, follow_symlinks=False)
                os.chmod(self.scratch, 0o700)
                for _, folders, files, handle in os.fwalk(self.scratch):
                    for name in (*folders, *files):
                        os.chown(name, self.uid, self.uid, dir_fd=handle, follow_symlinks=False)
        except (OSError, RecursionError) as error:
            self.miss(f"the folder could not be given to it: {error}", "scratch")

    def _change_user(self) -> None:
        """Become a user of its own, with the one capability that reading may need."""
        kept = _kernel.CAP_DAC_READ_SEARCH if self.closed is not None else None
        for handle in (1, 2):
            quietly(lambda handle=handle: os.fchown(handle, self.uid, self.uid))  # type: ignore[misc]
        try:
            _kernel.bound_capabilities(kept)
            _kernel.prctl(_kernel.PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)
        except OSError as error:
            self.miss(f"another user was refused: {error.strerror}; it runs without capabilities", "user")
            kept = None
        _kernel.set_capabilities(kept)
        if kept is not None:
            power = "it keeps CAP_DAC_READ_SEARCH and with it can read every file"
            self.miss(f"{power}: another user could not read {self.closed}", "capabilities")

    def _limit(self) -> None:
        if self.identity == SAME:
            self.miss(
                "the processes of its user are limited together, and it has no user of its own", "processes"
            )
        elif self.identity == MAPPED and kernel_version() < (5, 14):
            self.miss(
                "before Linux 5.14 the processes of a user are limited in all namespaces together",
                "processes",
            )
        elif self.starter == 0 and (self.identity == MAPPED or self.guards["user"]):
            self.miss("Linux does not limit the processes of root", "processes")
        else:
            lower(resource.RLIMIT_NPROC, self.processes)
        lower(resource.RLIMIT_NOFILE, OPEN_FILES)


def quietly(action: Callable[[], None]) -> bool:
    """Try it; whether it was allowed."""
    try:
        action()
    except OSError:
        return False
    return True


def lower(which: int, value: int) -> None:
    """Lower a limit, never above what is allowed."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def kernel_version() -> tuple[int, int]:
    """Major and minor version of the running kernel."""
    major, minor, *_ = os.uname().release.split("-")[0].split(".")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def stranger(pid: int) -> int:
    """A user that nobody else is: unique among live supervisors, and known in this user namespace."""
    wanted = STRANGERS + pid
    last = 65533
    try:
        with open("/proc/self/uid_map") as stream:
            for line in stream:
                inside, _, count = map(int, line.split())
                if inside <= wanted < inside + count:
                    return wanted
                last = inside + count - 2
    except (OSError, ValueError):
        return wanted
    return max(1, last - pid % max(1, last // 2))


def unreadable(paths: list[str], way: str) -> str | None:
    """The first of these files and folders that a user without any rights cannot read, or None.

    `way` is a folder that he only has to get through.
    """
    seen: set[tuple[str, bool]] = set()
    for path, read in (*((path, True) for path in paths), (way, False)):
        for name in (path, os.path.realpath(path)):
            last = read
            while (name, last) not in seen:
                seen.add((name, last))
                try:
                    mode = os.stat(name).st_mode
                except OSError:
                    break
                needed = (stat.S_IROTH if last else 0) | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
                if mode & needed != needed:
                    return name
                name, last = os.path.dirname(name), False
    return None
