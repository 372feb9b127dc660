"""System calls that Python 3.11 has no names for; each raises OSError when the kernel refuses."""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47

CAP_DAC_READ_SEARCH = 2

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_SYS_MOUNT_SETATTR = 442  # the same on every architecture
_MOUNT_ATTR_RDONLY = 0x1
_CAPABILITY_VERSION_3 = 0x20080522
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4

# Audit architecture, then the numbers of seccomp and open_by_handle_at.
_SYSTEM_CALLS = {"x86_64": (0xC000003E, 317, 304), "aarch64": (0xC00000B7, 277, 265)}
_X32 = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def prctl(option: int, value: int, third: int = 0) -> None:
    """Set a process control."""
    _checked(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(third), 0, 0))


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(flags))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, bind or change a mount."""
    _checked(
        _libc.mount(
            os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()
        )
    )


def set_read_only(path: str, read_only: bool, *, recursive: bool = False) -> None:
    """Make the mount at `path` read-only or not, with all mounts below it when recursive (Linux 5.12)."""
    on, off = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = struct.pack("=QQQQ", on, off, 0, 0)
    _checked(
        _libc.syscall(
            ctypes.c_long(_SYS_MOUNT_SETATTR),
            ctypes.c_long(_AT_FDCWD),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.c_ulong(_AT_RECURSIVE if recursive else 0),
            ctypes.c_char_p(attributes),
            ctypes.c_size_t(len(attributes)),
        )
    )


def set_capabilities(kept: int | None) -> None:
    """Have no capability, or only one: effective, and ambient, so that programs we execute have it too."""
    mask = 0 if kept is None else 1 << kept
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    _checked(_libc.capset(header, struct.pack("=6I", low, low, low, high, high, high)))
    if kept is not None:
        prctl(PR_CAP_AMBIENT, 2, kept)  # PR_CAP_AMBIENT_RAISE


def has_capability(capability: int) -> bool:
    """Whether this process has a capability to give."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    held = ctypes.create_string_buffer(24)
    _checked(_libc.capget(header, held))
    _, low, _, _, high, _ = struct.unpack("=6I", held.raw)
    return bool((low | high << 32) >> capability & 1)


def bound_capabilities(kept: int | None) -> None:
    """Let no execution ever give a capability back, but for one."""
    for capability in range(64):
        if capability != kept:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                return  # past the last that this kernel knows


def forbid_opening_by_handle() -> None:
    """Refuse open_by_handle_at, which would pass by the mounts for whoever may search every folder.

    Speculation stays as it is: kernels before 5.16 would otherwise slow down what runs under a filter.
    NotImplementedError on processors whose call numbers are not known here.
    """
    machine = os.uname().machine
    if machine not in _SYSTEM_CALLS:
        raise NotImplementedError(f"the number of open_by_handle_at on {machine} is not known")
    architecture, seccomp, forbidden = _SYSTEM_CALLS[machine]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    refuse, allow = 0x00050000 | 1, 0x7FFF0000  # EPERM
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (load, 0, 0, 4),  # the architecture of the call
            (equal, 0, 4, architecture),
            (load, 0, 0, 0),  # its number
            (equal, 2, 0, forbidden),
            (at_least, 1, 0, _X32),
            (answer, 0, 0, allow),
            (answer, 0, 0, refuse),
        )
    )
    buffer = ctypes.create_string_buffer(program)
    filters = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    _checked(
        _libc.syscall(
            ctypes.c_long(seccomp),
            ctypes.c_ulong(_SECCOMP_SET_MODE_FILTER),
            ctypes.c_ulong(_SECCOMP_FILTER_FLAG_SPEC_ALLOW),
            ctypes.c_char_p(filters),
        )
    )
