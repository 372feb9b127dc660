"""The file system that a sandbox shows: all of ours, to read only, but for what is hidden or its own."""

# ruff: noqa: PTH103, PTH108, PTH110, PTH112, PTH115, PTH120, PTH123 - pathlib would lengthen every start
from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.process import _kernel
    from kernelwright.process._confine import Confinement
else:
    import _kernel

SHARED = "/dev/shm"
SERVICES = "/run"  # where most services have their sockets
SHARED_BYTES = 1 << 30

_FLAGS = {
    "ro": _kernel.MS_RDONLY,
    "nosuid": _kernel.MS_NOSUID,
    "nodev": _kernel.MS_NODEV,
    "noexec": _kernel.MS_NOEXEC,
    "noatime": _kernel.MS_NOATIME,
    "nodiratime": _kernel.MS_NODIRATIME,
    "relatime": _kernel.MS_RELATIME,
}


def build(box: Confinement) -> None:
    """Build it, in a new mount namespace; what is refused is noted in the box's guards."""
    private = _kernel.MS_REC | _kernel.MS_PRIVATE
    alone = box.attempt(
        "a private mount tree",
        lambda: _kernel.mount("none", "/", flags=private),
        *("mount_namespace", "read_only", "scratch"),
    )
    if not alone:
        return
    # What lies below a folder that is about to be covered is taken hold of first.
    covered = (SHARED, SERVICES, *box.hidden)
    needed = [box.scratch, *(path for path in dict.fromkeys(box.readable) if below_any(path, covered))]
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in dict.fromkeys(needed)}
    shared = box.attempt(f"a {SHARED} of its own", lambda: cover_shared(box.memory_bytes), "mount_namespace")
    for path in (*box.hidden, *box.sockets):
        box.attempt(f"hiding {path}", lambda path=path: hide(path), "mount_namespace")  # type: ignore[misc]
    if os.path.isdir(SERVICES):
        box.attempt(f"an empty {SERVICES}", lambda: cover(SERVICES), "mount_namespace")
    for path, handle in held.items():
        guard = "scratch" if path == box.scratch else "mount_namespace"
        box.attempt(f"mounting {path}", lambda path=path, handle=handle: bind(handle, path), guard)  # type: ignore[misc]
        os.close(handle)
    own = box.own_pids and box.attempt("a /proc of its own", mount_proc, "pid_namespace")
    if not box.attempt("a read-only view", lambda: close("/"), "read_only"):
        box.miss("other folders can be written to as well", "scratch")
        return
    for path, exists in ((box.scratch, True), (SHARED, shared), ("/proc", own)):
        if exists:
            box.attempt(f"writing to {path}", lambda path=path: open_up(path), "scratch")  # type: ignore[misc]


def below(path: str, folder: str) -> bool:
    """Whether a path is in a folder, links followed."""
    return below_any(path, (folder,))


def below_any(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is in one of these folders, links followed."""
    return resolve(path).startswith(tuple(f"{folder}/" for folder in folders))


def resolve(path: str) -> str:
    """The path without links, asked of the kernel where it can say so: one look instead of one a folder."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return os.path.realpath(path)
    finally:
        os.close(handle)


def sockets() -> list[str]:
    """Where somebody listens: no network namespace closes the way to a socket that is a file."""
    found = []
    try:
        with open("/proc/net/unix", errors="surrogateescape") as stream:
            for line in stream:
                path = line.rstrip("\n").split(None, 7)[7:]
                if path and path[0].startswith("/") and os.path.lexists(path[0]):
                    found.append(path[0])
    except OSError:
        pass
    return [path for path in dict.fromkeys(found) if not below(path, SERVICES)]


def cover_shared(memory_bytes: int | None) -> None:
    """Put an empty file system of limited size where shared memory lies."""
    size = min(memory_bytes or SHARED_BYTES, SHARED_BYTES)
    flags = _kernel.MS_NOSUID | _kernel.MS_NODEV
    _kernel.mount("tmpfs", SHARED, "tmpfs", flags, f"size={size},mode=1777")


def cover(folder: str) -> None:
    """Put an empty folder in front of one."""
    flags = _kernel.MS_NOSUID | _kernel.MS_NODEV | _kernel.MS_NOEXEC
    _kernel.mount("tmpfs", folder, "tmpfs", flags, "size=64k,mode=755")


def hide(path: str) -> None:
    """Put nothing in front of a file or a folder; one that does not exist is hidden already."""
    if os.path.isdir(path):
        cover(path)
    elif os.path.lexists(path):
        empty = f"{SHARED}/empty-{os.getpid()}"
        os.close(os.open(empty, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
        try:
            _kernel.mount(empty, path, flags=_kernel.MS_BIND)
        finally:
            os.unlink(empty)


def bind(handle: int, path: str) -> None:
    """Mount what a descriptor stands for at its path, which may have been covered."""
    if os.path.isdir(f"/proc/self/fd/{handle}"):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC))
    _kernel.mount(f"/proc/self/fd/{handle}", path, flags=_kernel.MS_BIND | _kernel.MS_REC)


def mount_proc() -> None:
    """Show the processes of the new PID namespace."""
    flags = _kernel.MS_NOSUID | _kernel.MS_NODEV | _kernel.MS_NOEXEC
    _kernel.mount("proc", "/proc", "proc", flags)


def close(path: str) -> None:
    """Make all mounts below a path read-only."""
    try:
        _kernel.set_read_only(path, True, recursive=True)
    except OSError:
        close_each()


def close_each() -> None:
    """Make every mount read-only, one by one, for kernels before 5.12."""
    with open("/proc/self/mountinfo") as stream:
        lines = [line.split() for line in stream]
    for fields in lines:
        path = fields[4].encode().decode("unicode_escape")
        try:
            _kernel.mount("none", path, flags=remount_flags(fields[5]) | _kernel.MS_RDONLY)
        except OSError:
            if os.path.exists(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
                raise


def open_up(path: str) -> None:
    """Make one mount writable again."""
    try:
        _kernel.set_read_only(path, False)
    except OSError:
        with open("/proc/self/mountinfo") as stream:
            options = [line.split()[5] for line in stream if line.split()[4] == path.replace(" ", "\\040")]
        _kernel.mount("none", path, flags=remount_flags(options[-1]) & ~_kernel.MS_RDONLY)


def remount_flags(options: str) -> int:
    """The flags that change a mount and nothing else of it."""
    flags = _kernel.MS_REMOUNT | _kernel.MS_BIND
    for name in options.split(","):
        flags |= _FLAGS.get(name, 0)
    return flags
