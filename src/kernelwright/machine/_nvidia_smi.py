"""nvidia-smi where it changes things: asked, told, and what its refusals mean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.process import Limits
from kernelwright.process import run

_LIMITS = Limits(wall_s=30.0)
#: Return codes of nvidia-smi, as its manual page lists them.
_NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND, _NO_DRIVER, _LOST = 3, 4, 6, 9, 15


class Refusal(StrEnum):
    """Why the clocks of a GPU were not locked."""

    NO_TOOL = "no_tool"
    """There is no nvidia-smi."""
    NO_GPU = "no_gpu"
    """The driver shows no such GPU."""
    NO_PERMISSION = "no_permission"
    """This user may not change clocks."""
    UNSUPPORTED = "unsupported"
    """This GPU, or this part of one, does not let its clocks be locked."""
    IN_USE = "in_use"
    """Another process has locked them, and will unlock them when it ends."""
    FAILED = "failed"
    """nvidia-smi failed in another way."""
    NOT_RESTORED = "not_restored"
    """They were locked, and could not be unlocked."""


class BenchmarkModeError(KernelwrightError):
    """The clocks of a GPU could not be locked, or not be unlocked; `reason` says why, in a closed set."""

    def __init__(self, reason: Refusal, text: str) -> None:
        self.reason = reason
        super().__init__(text)


@dataclass(frozen=True)
class Asked:
    """What a GPU is before anything is changed; clocks in MHz, None where it does not say."""

    uuid: str
    name: str
    driver: str
    persistence: bool | None
    sm_mhz: int | None
    memory_mhz: int | None
    max_sm_mhz: int | None
    max_memory_mhz: int | None


_FIELDS = (
    "uuid,name,driver_version,persistence_mode,clocks.current.sm,clocks.current.memory,clocks.max.sm,"
    "clocks.max.memory"
)


class NvidiaSmi:
    """The program, for one GPU: its index in the driver's order (by bus), or its UUID.

    Raises BenchmarkModeError, as all methods do.
    """

    def __init__(self, device: int | str) -> None:
        found = shutil.which("nvidia-smi")
        if found is None:
            raise BenchmarkModeError(
                Refusal.NO_TOOL,
                "there is no nvidia-smi on the path, so there is no NVIDIA driver here, or a container "
                "without its tools (run it with the `utility` capability)",
            )
        self._program = Path(found)
        self.device = str(device)

    def ask(self) -> Asked:
        """What the GPU is now."""
        words = [word.strip() for word in self._query(f"--query-gpu={_FIELDS}").splitlines()[0].split(",")]
        if len(words) != len(_FIELDS.split(",")):
            raise BenchmarkModeError(
                Refusal.FAILED, f"nvidia-smi did not answer what it was asked: {', '.join(words)!r}"
            )
        on = {"Enabled": True, "Disabled": False}.get(words[3])
        return Asked(words[0], words[1], words[2], on, *(_number(word) for word in words[4:]))

    def supported(self, kind: str) -> list[int]:
        """The clocks that the GPU can be set to, MHz, ascending: `graphics` or `memory`; empty if unsaid."""
        try:
            text = self._query(f"--query-supported-clocks={kind}")
        except BenchmarkModeError:
            return []
        return sorted({value for line in text.splitlines() if (value := _number(line)) is not None})

    def command(self, *words: str) -> list[str]:
        """The command line for this GPU."""
        return [str(self._program), "-i", self.device, *words]

    def tell(self, *words: str) -> None:
        """Change something."""
        self._run(*words)

    def _query(self, what: str) -> str:
        text = self._run(what, "--format=csv,noheader,nounits")
        if not text.strip():
            raise BenchmarkModeError(Refusal.NO_GPU, f"nvidia-smi shows no GPU {self.device}")
        return text

    def _run(self, *words: str) -> str:
        command = self.command(*words)
        done = run(command, limits=_LIMITS)
        said = f"{done.stdout}\n{done.stderr}".strip()
        reason = _refusal(done.returncode if done.ok or done.returncode else None, said)
        if done.ok and reason is None:
            return done.stdout
        line = said.splitlines()[0] if said else done.describe()
        shown = " ".join(["nvidia-smi", *command[1:]])
        raise BenchmarkModeError(
            reason or Refusal.FAILED, f"`{shown}` said: {line}{_REMEDIES.get(reason or Refusal.FAILED, '')}"
        )


_REMEDIES: Mapping[Refusal, str] = {
    Refusal.NO_PERMISSION: "; it takes root (sudo, or a container with CAP_SYS_ADMIN)",
    Refusal.NO_GPU: "; `nvidia-smi -L` lists those that are here",
    Refusal.UNSUPPORTED: "; measure with the clocks as they are, in interleaved pairs",
}


def _refusal(code: int | None, said: str) -> Refusal | None:
    """What kind of a refusal that is. It says `not supported` with return code 0, too."""
    text = said.lower()
    if code == _NO_PERMISSION or "permission" in text:
        return Refusal.NO_PERMISSION
    if code == _NOT_SUPPORTED or "not supported" in text:
        return Refusal.UNSUPPORTED
    if code in (_NOT_FOUND, _NO_DRIVER, _LOST) or re.search(
        "no devices were found|couldn't communicate", text
    ):
        return Refusal.NO_GPU
    return None


def _number(word: str) -> int | None:
    word = word.strip()
    return int(word) if word.isdigit() else None
