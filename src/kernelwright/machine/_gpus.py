"""Graphics processors, as nvidia-smi shows them; no library is needed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from kernelwright.process import Limits
from kernelwright.process import run

_FIELDS = "name,memory.total,driver_version,compute_cap"


@dataclass(frozen=True)
class Gpu:
    """A graphics processor; `capability` is its compute capability, such as `9.0`."""

    name: str
    memory_bytes: int
    driver: str
    capability: str


def detect_gpus() -> tuple[Gpu, ...]:
    """The graphics processors that the driver shows; none without nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    outcome = run(
        [program, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"], limits=Limits(wall_s=20.0)
    )
    return parse_gpus(outcome.stdout) if outcome.ok else ()


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Read nvidia-smi's lines; one that it could not fill in is left out."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 4 and words[1].isdigit():
            found.append(Gpu(words[0], int(words[1]) << 20, words[2], words[3]))
    return tuple(found)
