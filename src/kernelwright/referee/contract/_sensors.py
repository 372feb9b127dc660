"""What a candidate does besides computing, noted in its own process.

Four things are looked at. An audit hook, which Python cannot remove again, sees files opened and signals
sent. A snapshot of functions, taken before the candidate is imported, shows later which were replaced. A few
settings of the interpreter and of torch show what was left on. And one call can be traced for the torch
operators that it reaches.

None of it is needed for a right verdict: the judge's process, clock and memory are out of reach anyway. It
says in words what a candidate tried. So it errs on the side of silence: what a compiler, a thread pool, a
logger or a lazily built library does is no act.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import sys
import types
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.referee.contract import _snapshot as snapshots

LOG_BYTES = 64 * 1024
"""As in `_board`: acts are noted at the start of the board at once, for a process that dies of one."""
_MAX_ACTS = 64
_MAX_OPERATORS = 200
_MAX_DEPTH = 64

_realpath = os.path.realpath
_getpid = os.getpid
_getpgrp = os.getpgrp
_fspath = os.fspath
_open = os.open
_read = os.read
_close = os.close
_dumps = json.JSONEncoder().encode
_gettrace = sys.gettrace
_getprofile = sys.getprofile
_getitimer = signal.getitimer
_timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_function_modes = torch._C._len_torch_function_stack
_function_mode = torch._C._get_function_stack_at
_dispatch_modes = torch._C._len_torch_dispatch_stack
_other_memory = re.compile(
    r"/proc/(\d+|self|thread-self)/(?:task/\d+/)?(mem|environ|maps|fd|map_files|root)\b"
).match
_Frame = types.FrameType

_EVENTS = frozenset(
    {
        *("open", "os.kill", "os.killpg", "os.remove", "os.rename", "os.truncate", "os.chmod", "os.link"),
        *("os.symlink", "shutil.rmtree", "shutil.move", "gc.get_objects", "gc.get_referrers"),
        *("gc.get_referents", "sys._getframe", "sys._current_frames", "ctypes.dlsym", "os.putenv"),
    }
)
_LOOKS = {
    "gc.get_objects": "all objects of the process",
    "gc.get_referrers": "who refers to an object",
    "gc.get_referents": "what an object refers to",
    "sys._getframe": "the frames of its callers",
    "sys._current_frames": "the frames of all threads",
}
_INTO_OTHERS = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd")
_CHANGES = ("os.remove", "os.rename", "os.truncate", "os.chmod", "os.link", "os.symlink", "shutil.rmtree")
#: Modules through which a file is opened or a frame is looked at on behalf of their caller.
_GO_BETWEEN = (
    "pathlib.py",
    "io.py",
    "_io.py",
    "codecs.py",
    "inspect.py",
    "shutil.py",
    "contextlib.py",
    "os.py",
)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CODE = (".py", ".pyi", ".pyc", ".so", ".pth")


class _Here(Exception):
    """Raised for its frame, never seen."""


def _calling_frame(above: int) -> _Frame | None:
    """The frame `above` levels over the caller's, without the event that sys._getframe would be."""
    try:
        raise _Here
    except _Here as here:
        trace = here.__traceback__
        assert trace is not None
        frame: _Frame | None = trace.tb_frame
    for _ in range(above + 1):
        if frame is None:
            return None
        frame = frame.f_back
    return frame


class Sensors:
    """Notes acts, at most 64 different ones, in memory and at the start of the board."""

    def __init__(self, mapping: mmap.mmap, modules: Sequence[types.ModuleType] = ()) -> None:
        """`modules` are the judge's own here."""
        self._mapping = mapping
        self._modules = modules
        self._logged = 0
        self._acts: dict[tuple[str, str], dict[str, Any]] = {}
        self._watched: dict[str, str] = {}
        self._folders: tuple[str, ...] = ()
        self._own: tuple[str, ...] = ()
        self._installed: tuple[str, ...] = ()
        here = Path(__file__).resolve().parent
        self._judge = f"{here}{os.sep}"
        self._snapshot: snapshots.Snapshot | None = None
        self._operators = _Operators()

    def start(self, watched: Mapping[str, str], folders: tuple[str, ...], own: tuple[str, ...]) -> None:
        """Take the snapshot and begin to listen; called right before the candidate is imported.

        `watched` names files that it has no business with; `folders` is where it is found, `own` the files
        and folders in them that are the candidate's.
        """
        self._watched = {name: _realpath(path) for name, path in watched.items()}
        self._folders = folders
        self._own = own
        library = Path(os.__file__).resolve().parent
        packages = Path(torch.__file__).resolve().parents[1]
        project = Path(__file__).resolve().parents[2]
        self._installed = tuple(f"{folder}{os.sep}" for folder in (library, packages, project))
        self._snapshot = snapshots.Snapshot(self._modules)
        sys.addaudithook(self._hear)

    def of_candidate(self, file: str) -> bool:
        """Whether a code file is the candidate's."""
        return file.startswith(self._own) and not file.startswith(self._judge)

    def _of_stranger(self, file: str) -> bool:
        """Whether a code file is the candidate's and not one of this project, which may be the candidate."""
        return self.of_candidate(file) and not file.startswith(self._installed[-1])

    def acts(self) -> list[dict[str, Any]]:
        """What was noted so far."""
        return [*self._acts.values()]

    def note(self, act: str, what: str, said: str, *, where: str = "", deceives: bool = True) -> None:
        """Note an act, once."""
        if (act, what) in self._acts or len(self._acts) >= _MAX_ACTS:
            return
        one = {"act": act, "what": what[:300], "said": said[:600], "where": where[:300], "deceives": deceives}
        self._acts[act, what] = one
        line = (_dumps(one) + "\n").encode()
        if self._logged + len(line) < LOG_BYTES:
            self._mapping[self._logged : self._logged + len(line)] = line
            self._logged += len(line)

    def after_call(self) -> None:
        """Look at what must not be left on when a call returns; cheap enough for each call."""
        if any(_getitimer(timer)[0] for timer in _timers):
            self.note(
                "left_on", "timer", "left a timer signal armed when it returned: its handler runs later"
            )
        for get, name in ((_gettrace, "trace"), (_getprofile, "profile")):
            function = get()
            if function is not None:
                self.note(
                    "left_on",
                    f"sys.set{name}",
                    f"installed a {name} function, which sees every call and line of the process",
                )
        for index in range(_function_modes()):
            mode = _function_mode(index)
            if type(mode) is DeviceContext:
                self.note("state", "default device", "left torch's default device changed", deceives=False)
            else:
                name = type(mode).__qualname__
                self.note(
                    "left_on", name, f"left a torch function mode on ({name}), which intercepts others' calls"
                )
        if _dispatch_modes():
            self.note(
                "left_on", "dispatch mode", "left a torch dispatch mode on, which intercepts others' calls"
            )

    def compare(self) -> None:
        """Look for functions that were replaced and settings that were changed since `start`."""
        assert self._snapshot is not None
        self.after_call()
        for name in self._snapshot.replaced():
            self.note("patched", name, f"replaced {name}")
        for name in snapshots.planted(self._of_stranger):
            self.note("patched", name, f"replaced {name}")
        for name, was, now in self._snapshot.settings_changed():
            self.note("state", name, f"left {name} changed from {was} to {now}", deceives=False)

    def tracing(self, into: dict[str, Any] | None) -> AbstractContextManager[Any]:
        """Under it, the torch operators reached are noted as `into["operators"]`; nothing for None."""
        if into is None:
            return nullcontext()
        self._operators.names = {}
        into["operators"] = self._operators.names
        return self._operators

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        try:
            if event == "open":
                self._opened(args)
            elif event in ("os.kill", "os.killpg"):
                self._signalled(event, args)
            elif event == "ctypes.dlsym":
                if args[1] in _INTO_OTHERS:
                    said = f"asks for {args[1]}, which reads or changes other processes"
                    self.note("opened", args[1], said, where=self._where())
            elif event in _LOOKS:
                self._looked(event)
            elif event in _CHANGES:
                for path in args[:2]:
                    self._touched(path, writes=True, verb="changes")
        except (TypeError, ValueError, AttributeError, OSError, IndexError):
            # Strange arguments are for the function itself to complain about; a hook that raises would
            # change what the candidate sees.
            return

    def _opened(self, args: tuple[Any, ...]) -> None:
        path, mode, flags = args
        writes = (
            any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITE_FLAGS)
        )
        self._touched(path, writes=writes, verb="opens")

    def _touched(self, path: object, *, writes: bool, verb: str) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor
        name = os.fsdecode(_fspath(path))
        if name.startswith("/proc/"):
            self._touched_process(name, writes)
            return
        name = _realpath(name)
        how = " for writing" if writes and verb == "opens" else ""
        for title, watched in self._watched.items():
            if name == watched or name.startswith(watched + os.sep):
                self.note("opened", title, f"{verb} {title}{how} ({name})", where=self._where())
                return
        if not writes:
            if name.startswith(self._judge) and self._candidate_asks():
                self.note(
                    "looked", name, f"reads the judge's code ({name})", where=self._where(), deceives=False
                )
            return
        if name.startswith(self._own) or (f"{os.sep}__pycache__{os.sep}" in name and name[-4:] != ".pyc"):
            return  # its own, or what compilers like numba keep beside a source
        if name.startswith(self._installed) and not self._importing():
            judge = (
                "the judge's harness" if name.startswith(self._installed[-1]) else "the installed environment"
            )
            self.note("opened", name, f"{verb} a file of {judge}{how} ({name})", where=self._where())
        elif name.startswith(self._folders) and name.endswith(_CODE) and not self._importing():
            self.note(
                "opened",
                name,
                f"{verb} a file beside the candidate's own{how} ({name})",
                where=self._where(),
            )

    def _touched_process(self, name: str, writes: bool) -> None:
        found = _other_memory(name)
        if found is None:
            return
        process, what = found.groups()
        own = process in ("self", "thread-self") or int(process) == _getpid()
        if own and not (what == "mem" and writes):
            return
        whose = "its own process for writing" if own else f"another process ({process})"
        title = f"/proc/{'self' if own else 'other'}/{what}"
        self.note("opened", title, f"opens the {what} of {whose}, {name}", where=self._where())

    def _signalled(self, event: str, args: tuple[Any, ...]) -> None:
        target, number = args
        if number == 0:
            return  # asks whether it lives
        if event == "os.killpg" and target in (0, _getpgrp()):
            said = f"sends signal {int(number)} to its own process group"
            self.note("signalled", "own group", said, where=self._where(), deceives=False)
        elif target == _getpid() or (target > 0 and self._descends(target)):
            return
        else:
            whom = "the process group" if event == "os.killpg" else "the process"
            said = f"sends signal {int(number)} to {whom} {target}, which is not its own"
            self.note("signalled", whom, said, where=self._where())

    def _descends(self, pid: int) -> bool:
        """Whether a process was started by this one; one that is gone already counts as such."""
        own = _getpid()
        for _ in range(_MAX_DEPTH):
            if pid == own:
                return True
            if pid <= 1:
                return False
            try:
                handle = _open(f"/proc/{pid}/stat", os.O_RDONLY)
            except OSError:
                return True
            try:
                pid = int(_read(handle, 4096).rpartition(b")")[2].split()[1])
            finally:
                _close(handle)
        return False

    def _looked(self, event: str) -> None:
        if self._candidate_asks():
            self.note(
                "looked", event, f"looks at {_LOOKS[event]} ({event})", where=self._where(), deceives=False
            )

    def _candidate_asks(self) -> bool:
        """Whether the candidate's own code caused the event, at most through a module like pathlib."""
        frame = _calling_frame(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if not (file.endswith(_GO_BETWEEN) or file == __file__ or file.startswith("<frozen")):
                return self.of_candidate(file)
            frame = frame.f_back
        return False

    def _importing(self) -> bool:
        """Whether the import system caused the event: it writes bytecode."""
        frame = _calling_frame(1)
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")

    def _where(self) -> str:
        """The innermost line of the candidate that is running."""
        frame = _calling_frame(1)
        while frame is not None:
            if self.of_candidate(frame.f_code.co_filename):
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the names of the operators that run under it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: dict[str, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the method below for its compiler, and import that at its first use."""
        return False

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = str(func)
        if name in self.names or len(self.names) < _MAX_OPERATORS:
            self.names[name] = self.names.get(name, 0) + 1
        return func(*args, **(kwargs or {}))
