"""The measuring child, seen from this side: started, spoken to, watched, and its end put into words."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernelwright import build
from kernelwright import machine
from kernelwright.errors import KernelwrightError
from kernelwright.process import Child
from kernelwright.process import child_script
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.referee import _layout as layout
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._shared import SharedMemory
from kernelwright.referee._verdict import Status

_NATIVE = Path(__file__).with_name("native")
_LIFE_S = 24 * 3600.0
_START_S = 30.0
_LOOK_S = 0.25
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH")
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
    file = build.read_build_file(_NATIVE / "build.toml")
    (section,) = file.kernels.values()
    return build.build(build.BuildRequest(section, file.root, {})).library


def libgomp() -> str:
    """The OpenMP runtime that torch brings, or empty where it uses the system's."""
    found = sorted(Path(torch.__file__).parent.joinpath("lib").glob("libgomp*.so*"))
    return str(found[0]) if found else ""


@dataclass
class MeasuringChild:
    """One child process and the kernels loaded into it."""

    store: SharedMemory
    board: SharedMemory
    memory_bytes: int
    _child: Child | None = None
    _loaded: dict[tuple[Path, str], int] = field(default_factory=dict)
    _strangers: set[Path] = field(default_factory=set)

    @property
    def progress(self) -> layout.Progress:
        """Where the child is, in place."""
        return self.board.record(layout.Progress, 0)

    def used_by_others(self, *libraries: Path) -> bool:
        """Whether libraries other than these have run in this child."""
        return bool(self._strangers - set(libraries))

    def start(self) -> None:
        """Start the child if it is not running. Raises RefereeError when it cannot serve."""
        if self._child is not None:
            return
        arguments = (
            str(driver_library()),
            libgomp(),
            str(self.store.descriptor),
            str(self.store.size),
            str(self.board.descriptor),
            str(self.board.size),
        )
        limits = Limits(wall_s=_LIFE_S, memory_bytes=self.store.size + self.board.size + self.memory_bytes)
        self._child = Child(
            child_script(_NATIVE / "child.py", *arguments),
            limits=limits,
            env=_environment(),
            pass_fds=(self.store.descriptor, self.board.descriptor),
        )
        try:
            hello = self._child.receive(_START_S)
        except (ChildEnded, ChildTimeout, ChildGarbled) as error:
            said = error.outcome.stderr.strip()[-2000:] if isinstance(error, ChildEnded) else ""
            self.stop()
            raise RefereeError(f"the measuring child does not start: {error}\n{said}".rstrip()) from error
        expected = [layout.CALL_BYTES, *layout.SIZES]
        if hello["sizes"] != expected:
            self.stop()
            raise RefereeError(f"the native driver's layout {hello['sizes']} is not {expected}; rebuild it")

    def stop(self) -> None:
        """End the child with all that it started."""
        if self._child is not None:
            self._child.kill()
        self._child = None
        self._loaded.clear()
        self._strangers.clear()
        _forget(self.progress)

    def load(self, entrant: NativeEntrant, patience: Patience) -> int:
        """The number of the entrant's function in the child. Raises KernelFailure."""
        key = (entrant.library, entrant.symbol)
        if key not in self._loaded:
            self.start()
            self._strangers.add(entrant.library)
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
        began = heard = time.monotonic()
        ticks = progress.ticks
        try:
            self._child.send(message)
            while True:
                try:
                    return self._child.receive(_LOOK_S)
                except ChildTimeout:
                    now = time.monotonic()
                    if progress.ticks != ticks:
                        ticks, heard = progress.ticks, now
                    if now - heard > patience.silent_s:
                        raise self._failure(
                            Status.HUNG, f"made no progress for {patience.silent_s:.3g} s"
                        ) from None
                    if now - began > patience.total_s:
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
        self.stop()
        return KernelFailure(status, reason, seen, end)

    def _ended(self, outcome: Outcome) -> KernelFailure:
        said = outcome.stderr.strip().splitlines()
        last = f" ({said[-1][:200]})" if said else ""
        if outcome.end is End.OUT_OF_MEMORY:
            return self._failure(
                Status.OUT_OF_MEMORY, f"asked for more memory than it may have{last}", outcome.end
            )
        if outcome.end is End.TIMED_OUT:
            return self._failure(
                Status.HUNG, f"ran into its limit of time after {outcome.wall_s:.3g} s", outcome.end
            )
        if outcome.end is End.SIGNALLED:
            name = signal.Signals(outcome.signal).name if outcome.signal else "a signal"
            return self._failure(Status.CRASHED, f"died of {name}{last}", outcome.end)
        return self._failure(
            Status.CRASHED, f"ended its process with exit code {outcome.returncode}{last}", outcome.end
        )


def _forget(progress: layout.Progress) -> None:
    """Forget where the last child was."""
    for name in layout.PROGRESS:
        setattr(progress, name, 0)


def default_memory_bytes() -> int:
    """The address space a kernel may use beside what is shared: three quarters of the memory."""
    return max(4 << 30, machine.current().memory_bytes * 3 // 4)


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
    return {**kept, "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "2"}
