"""What a sandbox is asked to be; `_confine.py` makes it so."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_USER = "kernelwright"


@dataclass(frozen=True)
class Sandbox:
    """A child that can harm nobody: what is asked for. `Child.guards` says what could not be had.

    `scratch` is the only folder it can write to (made if it is missing, given to the child's user with all
    that is in it, so not for two children at once); its current folder, HOME, TMPDIR and caches are there.
    `hidden` are files that read as empty and folders that look empty. `readable` are files and folders that
    it has to read besides the interpreter and what is on `sys.path`, such as the candidate: where another
    user could not read them, the child keeps CAP_DAC_READ_SEARCH. `processes` is how many processes and
    threads its user may have at once.
    """

    scratch: Path
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    processes: int = 256

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"a sandbox of {self.processes} processes; it needs one at least")

    def prepare(self) -> Path:
        """Make the scratch folder and return its absolute path."""
        scratch = self.scratch.resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        return scratch

    def words(self, program: Path) -> dict[str, str]:
        """The sandbox as a supervisor reads it; `program` is what will be run."""
        readable = [Path(sys.executable), _HERE, program, *map(Path, sys.path), *self.readable]
        asked = {
            "scratch": str(self.scratch.resolve()),
            "hidden": [str(path.resolve()) for path in self.hidden],
            "readable": [str(path.absolute()) for path in readable if path.exists()],
            "processes": self.processes,
        }
        return {"sandbox": json.dumps(asked)}

    def environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        """The whole environment of the child: `env`, and the variables that point into the scratch folder."""
        scratch = self.scratch.resolve()
        return {
            **(env or {}),
            "HOME": str(scratch),
            "TMPDIR": str(scratch / "tmp"),
            "XDG_CACHE_HOME": str(scratch / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": str(scratch / "cache" / "torchinductor"),
            "USER": _USER,
            "LOGNAME": _USER,
        }
