"""The measuring child, seen from this side: started, spoken to, watched, and its end put into words."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernelwright import build
from kernelwright import machine
from kernelwright.errors import KernelwrightError
from kernelwright.files import remove_tree
from kernelwright.process import Child
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.referee import _layout as layout
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._native_seal import CodeSeal
from kernelwright.referee._native_seal import impersonates
from kernelwright.referee._native_tasks import task_state
from kernelwright.referee._shared import SharedMemory
from kernelwright.referee._verdict import Status
from kernelwright.referee._waiting import Waiting

NATIVE = Path(__file__).with_name("native")
#: Results lie in the board after the child's progress.
BOARD_START = 4096
_LIFE_S = 24 * 3600.0
#: A baseline serves a whole search; a kernel's own deadlines are those of `Patience`.
_CPU_S = 4 * 3600.0
_FILE_BYTES = 1 << 30
_START_S = 30.0
_LOOK_S = 0.25
#: More tasks than any machine's OpenMP would start for one kernel's calls look like a bomb.
_MANY_TASKS = 100
#: The exit code of native/child.py when it cannot speak to us any more.
CHANNEL_LOST = 97
_KEPT_VARIABLES = ("PATH", "LANG", "LD_LIBRARY_PATH")
_KEPT_PREFIXES = ("OMP_", "GOMP_", "KMP_", "QEMU_")


class RefereeError(KernelwrightError):
    """The referee itself could not work; says nothing about the kernel."""


class KernelFailure(Exception):
    """What a kernel did to its child, as status and reason; `progress` is where the child was."""

    def __init__(self, status: Status, reason: str, progress: dict[str, int], end: str = "") -> None:
        self.status = status
        self.reason = reason
        self.progress = progress
        self.end = end
        super().__init__(reason)


@dataclass(frozen=True)
class Patience:
    """How long the child may go without making a call, or take in all, in seconds."""

    silent_s: float = 5.0
    total_s: float = 600.0


@cache
def driver_library() -> Path:
    """The native driver, built once. Raises BuildError, NoCompilerError."""
    file = build.read_build_file(NATIVE / "build.toml")
    (section,) = file.kernels.values()
    return build.build(build.BuildRequest(section, file.root, {})).library


@cache
def libgomp() -> str:
    """The OpenMP runtime that torch brings, or empty where it uses the system's."""
    found = sorted(Path(torch.__file__).parent.joinpath("lib").glob("libgomp*.so*"))
    return str(found[0]) if found else ""


#: Starts a process for the arguments of native/child.py, given its limits and descriptors.
Launch = Callable[[Sequence[str], Limits, Sequence[int], str], Child]


class MeasuringChild:
    """One child process for the kernels of one library, and the board that it alone shares with us."""

    def __init__(self, store: SharedMemory, launch: Launch, *, memory_bytes: int) -> None:
        self.store = store
        self.memory_bytes = memory_bytes
        self._launch = launch
        self._child: Child | None = None
        self._board: SharedMemory | None = None
        self._scratch: str | None = None
        self._loaded: dict[tuple[Path, str], int] = {}
        self._code: CodeSeal | None = None
        self._greeted = self._filling = False
        self.guards: Mapping[str, str] = {}

    @property
    def board(self) -> SharedMemory:
        """The memory that this child can write, to be read until `stop` even when the child has died."""
        if self._board is None:
            self.start()
        assert self._board is not None
        return self._board

    @property
    def process(self) -> Child | None:
        """The process itself, or None when it is not running."""
        return self._child

    @property
    def progress(self) -> layout.Progress:
        """Where the child is, in place."""
        return self.board.record(layout.Progress, 0)

    def launch(self) -> None:
        """Let the child start if it does not run, without waiting for it. Raises RefereeError."""
        if self._child is not None:
            return
        self.stop()
        try:
            self._board = SharedMemory("referee-board", self.store.size, child_may_write=True)
            self._board.take(BOARD_START)
            self._scratch = tempfile.mkdtemp(prefix="kernelwright-")
            arguments = (
                str(driver_library()),
                libgomp(),
                str(self.store.descriptor),
                str(self.store.size),
                str(self._board.descriptor),
                str(self._board.size),
            )
            memory_bytes = self.store.size + self._board.size + self.memory_bytes
            limits = Limits(wall_s=_LIFE_S, memory_bytes=memory_bytes, cpu_s=_CPU_S, file_bytes=_FILE_BYTES)
            descriptors = (self.store.descriptor, self._board.descriptor)
            self._child = self._launch(arguments, limits, descriptors, self._scratch)
        except ChildEnded as error:
            self.stop()
            raise RefereeError(f"the measuring child does not start: {error}") from error
        except BaseException:
            self.stop()
            raise

    def get_ready(self, plan_at: int, sets: int) -> None:
        """Let a child that nobody has used fill so many buffer sets of a race, without waiting for it.

        Its kernel is loaded later. Raises RefereeError.
        """
        if self._filling or self._loaded:
            return
        self.launch()
        assert self._child is not None
        assert self._board is not None
        state_at = self._board.take(ctypes.sizeof(layout.RaceState))
        try:
            self._child.send({"op": "ready", "plan": plan_at, "state": state_at, "sets": sets})
        except (ChildEnded, ChildTimeout) as error:
            self.stop()
            raise RefereeError(f"the measuring child does not start: {error}") from error
        self._filling = True

    def start(self) -> None:
        """Have the child running and ready. Raises RefereeError when it cannot serve."""
        self.greet()
        assert self._child is not None
        if self._code is None:
            # Before any kernel comes, and beside the filling of buffer sets, if that goes on.
            names = (driver_library().name, "libc.so", "libgomp", "[vdso]")
            self._code = CodeSeal(self._child.pid or 0, names)
            self.guards = {**self._child.guards, "code": self._code.missing}
        if self._filling:
            self._filled()

    def greet(self) -> None:
        """Have the child running, whatever else it was told to do since. Raises RefereeError."""
        if self._child is not None and self._greeted:
            return
        self.launch()
        assert self._child is not None
        hello = self._await()
        expected = [layout.CALL_BYTES, *layout.SIZES]
        if hello["sizes"] != expected:
            self.stop()
            raise RefereeError(f"the native driver's layout {hello['sizes']} is not {expected}; rebuild it")
        self._greeted = True

    def rest(self) -> None:
        """Have the child running and at rest: it starts no more, and fills no buffer sets."""
        self.greet()
        if self._filling:
            self._filled()

    def _filled(self) -> None:
        """Wait until buffer sets are filled. Without memory for them now, opening the race will say so."""
        self._await()
        self._filling = False

    def _await(self) -> dict[str, Any]:
        """What a child that has no kernel yet says next. Raises RefereeError."""
        assert self._child is not None
        try:
            return self._child.receive(_START_S)
        except (ChildEnded, ChildTimeout, ChildGarbled) as error:
            said = error.outcome.stderr.strip()[-2000:] if isinstance(error, ChildEnded) else ""
            self.stop()
            raise RefereeError(f"the measuring child does not start: {error}\n{said}".rstrip()) from error
        except BaseException:
            self.stop()
            raise

    def end(self) -> None:
        """Have the child end with all that it started, without waiting for that; `stop` comes later."""
        if self._child is not None:
            self._child.end()

    def stop(self) -> None:
        """End the child with all that it started; its board and scratch go with it."""
        if self._child is not None:
            self._child.kill()
        if self._board is not None:
            self._board.close()
        if self._scratch is not None:
            remove_tree(Path(self._scratch))
        self._child = self._board = self._scratch = self._code = None
        self._greeted = self._filling = False
        self._loaded.clear()

    def tampered(self) -> str | None:
        """Code of the driver or of the C library that is no longer what it was before the kernel came."""
        return self._code.broken() if self._code is not None else None

    def load(self, entrant: NativeEntrant, patience: Patience) -> int:
        """The number of the entrant's function in the child. Raises KernelFailure."""
        key = (entrant.library, entrant.symbol)
        self.start()
        if key not in self._loaded:
            words = impersonates(entrant.library)
            if words is not None:
                raise KernelFailure(Status.CHEATED, words, {})
            answer = self.request(
                {"op": "load", "library": str(entrant.library), "symbol": entrant.symbol}, patience
            )
            if "error" in answer:
                raise KernelFailure(Status.BUILD_FAILED, str(answer["error"]), {})
            before, after = answer["controls"]
            if before != after:
                raise KernelFailure(
                    Status.WRONG,
                    f"loading its library changes the floating-point controls of the whole process "
                    f"({before:#x} to {after:#x}), as -ffast-math does when linking",
                    {},
                )
            self._loaded[key] = int(answer["kernel"])
        return self._loaded[key]

    def request(self, message: Mapping[str, Any], patience: Patience) -> dict[str, Any]:
        """Send one message and wait for its answer.

        Raises KernelFailure when the child dies, stays silent too long or garbles the channel; it is stopped.
        """
        self.start()
        assert self._child is not None
        progress = self.progress
        waiting = Waiting()
        heard = 0.0
        ticks = progress.ticks
        try:
            self._child.send(message)
            while True:
                try:
                    return self._child.receive(_LOOK_S)
                except ChildTimeout:
                    now = waiting.look(_LOOK_S)
                    if progress.ticks != ticks:
                        ticks, heard = progress.ticks, now
                    if now - heard > patience.silent_s:
                        raise self._failure(
                            Status.HUNG, f"made no progress for {patience.silent_s:.3g} s"
                        ) from None
                    if now > patience.total_s:
                        raise self._failure(
                            Status.HUNG, f"was not done after {patience.total_s:.3g} s"
                        ) from None
        except ChildEnded as error:
            raise self._ended(error.outcome) from error
        except ChildGarbled as error:
            raise self._failure(Status.CHEATED, f"wrote to the referee's own channel: {error}") from error
        except ChildTimeout as error:
            raise self._failure(Status.HUNG, str(error)) from error

    def _failure(self, status: Status, reason: str, end: str = "") -> KernelFailure:
        progress = self.progress
        seen = {name: int(getattr(progress, name)) for name in layout.PROGRESS}
        if self._child is not None:
            doing = describe_doing(self._child) if status is Status.HUNG else []
            outcome = self._child.kill()
            if status is Status.HUNG and outcome.stdout:
                said = outcome.stdout.strip().splitlines()
                doing.append(f"it was writing to its standard output ({said[-1][:60] if said else ''!r})")
            if doing:
                reason += "; " + ", ".join(doing)
            self._child = None
            self._loaded.clear()
        return KernelFailure(status, reason, seen, end)

    def _ended(self, outcome: Outcome) -> KernelFailure:
        said = outcome.stderr.strip().splitlines()
        last = f" ({said[-1][:200]})" if said else ""
        if outcome.end is End.OUT_OF_MEMORY:
            return self._failure(
                Status.OUT_OF_MEMORY, f"asked for more memory than it may have{last}", outcome.end
            )
        if outcome.end is End.STOPPED or outcome.returncode == CHANNEL_LOST:
            return self._failure(
                Status.CRASHED, "closed its channel to the referee, as who closes all descriptors does"
            )
        if outcome.end is End.TIMED_OUT:
            return self._failure(
                Status.HUNG, f"ran into its limit of time after {outcome.wall_s:.3g} s", outcome.end
            )
        if outcome.end is End.SIGNALLED:
            name = signal.Signals(outcome.signal).name if outcome.signal else "a signal"
            return self._failure(Status.CRASHED, f"died of {name}{last}", outcome.end)
        return self._failure(
            Status.CRASHED, f"ended its process itself with exit code {outcome.returncode}{last}", outcome.end
        )


def describe_doing(child: Child) -> list[str]:
    """What a child that makes no progress can be seen to do: it is stopped, or there are many of it."""
    found = []
    tasks = child.threads()
    if tasks > _MANY_TASKS:
        found.append(f"it had {tasks} processes and threads")
    if task_state(Path(f"/proc/{child.pid}")) in "tT":
        found.append("its process was stopped by a signal")
    if not child.unread() and _waits_for_a_message(child.pid):
        found.append(
            "it waits for a message, and the last one was taken: something else in it reads the judge's "
            "channel, unless it waits at a socket of its own"
        )
    return found


def _waits_for_a_message(pid: int | None) -> bool:
    """Whether the thread that answers sleeps at a socket; False where that is not to be seen."""
    try:
        return "unix_stream" in Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return False


def default_memory_bytes() -> int:
    """The address space a kernel may use beside what is shared: three quarters of the memory."""
    return max(4 << 30, machine.current().memory_bytes * 3 // 4)


def child_environment() -> dict[str, str]:
    """The variables of ours that a measuring child gets: those of loaders and OpenMP."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
    return {**kept, "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "2"}
