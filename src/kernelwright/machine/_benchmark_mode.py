"""Locked clocks of a GPU for as long as something is measured, for those who may lock them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field

from kernelwright import settings
from kernelwright.machine._clock_guardian import Guardian
from kernelwright.machine._nvidia_smi import Asked
from kernelwright.machine._nvidia_smi import BenchmarkModeError
from kernelwright.machine._nvidia_smi import NvidiaSmi
from kernelwright.machine._nvidia_smi import Refusal

#: Of the highest SM clock: what most GPUs sustain under load within their power limit. A clock that cannot be
#: sustained is lowered by the driver whenever it likes, which is what locking is to prevent.
_SUSTAINED = 0.75


@dataclass
class BenchmarkMode:
    """What was done to a GPU, and whether it is undone.

    `before` is what it was; `sm_clock_mhz` and `memory_clock_mhz` what they were locked to, None where they
    were not; `persistence` whether persistence mode was switched on here. `actions` are the commands that
    were run, in order, those that undo included; `notes` what could not be had. `restored` is True once all
    is as it was.
    """

    device: str
    before: Asked
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    persistence: bool = False
    actions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    restored: bool = False

    def describe(self) -> str:
        """For a person: what is locked, and to what."""
        clocks = [
            f"{name} clock locked to {value} MHz"
            for name, value in (("SM", self.sm_clock_mhz), ("memory", self.memory_clock_mhz))
            if value is not None
        ]
        if self.persistence:
            clocks.append("persistence mode switched on")
        state = "; all as before again" if self.restored else ""
        lines = [f"GPU {self.device} ({self.before.name}): {', '.join(clocks) or 'nothing changed'}{state}"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@contextlib.contextmanager
def gpu_benchmark_mode(
    device: int | str = 0,
    *,
    sm_clock_mhz: int | None = None,
    memory_clock_mhz: int | None = None,
    persistence: bool = True,
) -> Iterator[BenchmarkMode]:
    """Lock the clocks of a GPU, and give them free again however the block ends.

    `device` is an index as nvidia-smi counts (by bus, whatever CUDA_VISIBLE_DEVICES says), or a UUID. The SM
    clock is locked to `sm_clock_mhz`, or to three quarters of the highest one, the memory clock to
    `memory_clock_mhz`, or to the highest where the GPU lets it be locked; each to the nearest clock not above
    it that the GPU has. With `persistence`, persistence mode is switched on meanwhile, so that the driver
    stays loaded.

    When this process is killed, whatever with, a process that outlives it undoes all. A lock that someone set
    before cannot be read from the driver: it is gone afterwards.

    Raises BenchmarkModeError with a `reason`; nothing is then changed, except for `not_restored`, whose text
    has the commands to run. While a block's own exception is on its way, that is a note added to it.
    """
    smi = NvidiaSmi(device)
    mode = BenchmarkMode(str(device), smi.ask())
    with _alone(mode.before.uuid), Guardian() as guardian:
        switch = _Switch(smi, mode, guardian)
        try:
            switch.on(sm_clock_mhz, memory_clock_mhz, persistence)
            yield mode
        except BaseException as error:
            try:
                switch.off()
            except BenchmarkModeError as failure:
                error.add_note(str(failure))
            raise
        switch.off()


class _Switch:
    """Changes things, and knows how to undo each."""

    def __init__(self, smi: NvidiaSmi, mode: BenchmarkMode, guardian: Guardian) -> None:
        self._smi = smi
        self._mode = mode
        self._guardian = guardian
        self._undo: list[tuple[str, ...]] = []

    def on(self, sm_mhz: int | None, memory_mhz: int | None, persistence: bool) -> None:
        """Lock what is to be locked. What was not asked for by number and cannot be had is a note."""
        mode, before = self._mode, self._mode.before
        if persistence and before.persistence is False:
            try:
                self._do(("--persistence-mode=1",), ("--persistence-mode=0",))
                mode.persistence = True
            except BenchmarkModeError as error:
                if error.reason is Refusal.NO_PERMISSION:
                    raise
                mode.notes.append(f"persistence mode stays off: {error}")
        wanted = sm_mhz or round(_SUSTAINED * (before.max_sm_mhz or 0))
        if not wanted:
            raise BenchmarkModeError(
                Refusal.UNSUPPORTED, f"{before.name} does not say its highest SM clock; give sm_clock_mhz"
            )
        clock = _nearest(wanted, self._smi.supported("graphics"))
        self._do((f"--lock-gpu-clocks={clock},{clock}",), ("--reset-gpu-clocks",))
        mode.sm_clock_mhz = clock
        wanted = memory_mhz or before.max_memory_mhz or 0
        if wanted:
            clock = _nearest(wanted, self._smi.supported("memory"))
            try:
                self._do((f"--lock-memory-clocks={clock},{clock}",), ("--reset-memory-clocks",))
                mode.memory_clock_mhz = clock
            except BenchmarkModeError as error:
                if memory_mhz is not None or error.reason is Refusal.NO_PERMISSION:
                    raise
                mode.notes.append(f"the memory clock is not locked: {error}")

    def off(self) -> None:
        """Undo all, the last thing first; once more where an interruption came in between."""
        try:
            self._restore()
        except BenchmarkModeError:
            raise
        except BaseException:
            self._restore()
            raise

    def _do(self, words: tuple[str, ...], undo: tuple[str, ...]) -> None:
        """How to undo it is known before it is done: there is no moment in which it could be left done."""
        self._undo.append(undo)
        self._guardian.add(self._smi.command(*undo))
        try:
            self._smi.tell(*words)
        except BenchmarkModeError:
            # It was refused: there is nothing to undo, and to reset might undo what somebody else did.
            self._undo.remove(undo)
            self._guardian.drop()
            raise
        self._mode.actions.append(" ".join(words))

    def _restore(self) -> None:
        failed = []
        for words in reversed(self._undo):
            try:
                self._smi.tell(*words)
            except BenchmarkModeError as error:
                failed.append((words, str(error)))
            else:
                self._mode.actions.append(" ".join(words))
        if failed:
            commands = "; ".join(
                f"nvidia-smi -i {self._mode.device} {' '.join(words)}" for words, _ in failed
            )
            raise BenchmarkModeError(
                Refusal.NOT_RESTORED,
                f"GPU {self._mode.device} could not be given free again ({failed[0][1]}); run: {commands}",
            )
        self._mode.restored = True
        self._guardian.done()


def _nearest(wanted: int, clocks: list[int]) -> int:
    """The nearest clock that the GPU has, not above the one wanted if there is one."""
    below = [clock for clock in clocks if clock <= wanted]
    return below[-1] if below else (clocks[0] if clocks else wanted)


@contextlib.contextmanager
def _alone(uuid: str) -> Iterator[None]:
    """Hold a GPU's clocks for ourselves: the first of two to leave would unlock them for both."""
    path = settings.cache_dir() / "locks" / f"gpu-{uuid}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            raise BenchmarkModeError(
                Refusal.IN_USE, f"process {holder} has locked the clocks of GPU {uuid}; wait until it ends"
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield
