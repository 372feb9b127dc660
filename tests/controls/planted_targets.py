"""Targets and objectives with one fault each, which the canary has to find; and sound ones, which it lets by.

Nothing is compiled: a "binary" is a text that says what it was made with, and its time follows from that.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

from kernelwright.controls import Artifact
from kernelwright.controls import BuildFailure
from kernelwright.controls import compiler_arguments
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import save_compiler_config
from kernelwright.controls import split_config
from kernelwright.search import StageFailure
from kernelwright.space import choice
from kernelwright.space import Space

SECONDS = {"-O0": 3.0, "-O1": 1.5, "-O2": 1.1, "-O3": 1.0}
SINK = "-ftree-loop-im"  # changes nothing in these binaries
WRONG = "-ftree-vectorize"  # fast, and wrong
CRASHES_COMPILER = "-fgcse"
SPILLS = "-funroll-loops"


def provider() -> GccSearchSpace:
    return GccSearchSpace(options=[SINK, WRONG, CRASHES_COMPILER, SPILLS], params=False, knockout_prob=0.5)


class PlantedTarget:
    """A target with one `fault`, or none."""

    def __init__(
        self,
        folder: Path,
        fault: str = "",
        *,
        parameters: bool = False,
        wait_s: float = 0.0,
    ) -> None:
        self.name = f"planted {fault or 'sound'}"
        self.folder = folder
        self.fault = fault
        self.provider = provider()
        self.parameters = Space({"unroll": choice([1, 2], default=1)}) if parameters else None
        self.wait_s = wait_s
        self.stale: Artifact | None = None
        self.builds = 0
        self.measured: list[str] = []

    def describe(self) -> dict[str, Any]:
        return {"kind": "planted", "target": self.fault}

    def build(self, config: Any) -> Artifact:
        self._note("build")
        parameters, controls = split_config(config, mixed=self.parameters is not None)
        words = [] if controls is None else compiler_arguments(controls)
        if self.fault == "ignores its controls":
            words = []
        if self.fault == "is compiled with another level":
            words = words or ["-O2"]
        if CRASHES_COMPILER in words:
            raise BuildFailure("compiler_crashed", "internal compiler error: in gcse_main")
        self.builds += 1
        level = next((word for word in words if word.startswith("-O")), "-O3")
        kept = [word for word in sorted(words) if word in (WRONG, SPILLS)]
        code = " ".join([level, *kept, f"unroll={parameters.get('unroll', 1)}"])
        if self.fault == "does not repeat itself":
            code += f" build={self.builds}"
        key = hashlib.sha256(code.encode()).hexdigest()
        name = "kernel.so" if self.fault == "overwrites what it built" else f"{key}.so"
        path = self.folder / name
        path.write_text(code)
        resources = {"spill_stores": 8 if SPILLS in kept else 0, "registers": 40}
        made = Artifact(path, key, "", resources, 0.01)
        if self.fault == "serves what it built first":
            self.stale = self.stale or made
            return self.stale
        return made

    def measure(self, artifact: Artifact) -> float:
        self._note("measure")
        code = artifact.path.read_text().split()
        self.measured.append(artifact.code_key)
        if self.fault == "times what it loaded first":
            return 1.0
        if self.fault == "has no times":
            return float("nan")
        if self.fault == "is never right but at its levels" and len(code) == 2 and code[0] in ("-O2",):
            raise StageFailure("wrong everywhere", kind="wrong", lasts=True)
        if WRONG in code:
            raise StageFailure("element [0, 0] is 2, expected 1", kind="wrong", lasts=True)
        return SECONDS[code[0]] * (0.8 if SPILLS in code else 1.0)

    def _note(self, stage: str) -> None:
        """Take a while, and leave begin and end of a stage in a file."""
        if self.wait_s:
            begun = time.monotonic()
            time.sleep(self.wait_s)
            with (self.folder / "stages.txt").open("a") as stream:
                stream.write(f"{stage} {begun} {time.monotonic()} {os.getpid()}\n")


class PlantedObjective:
    """An objective in the seed's style: a hex string in, a score out; nothing else is to be seen of it."""

    def __init__(self, folder: Path, fault: str = "") -> None:
        self.folder = folder
        self.fault = fault
        self.cache: dict[str, float] = {}
        self.calls = 0

    def __call__(self, config: Any) -> Any:
        self.calls += 1
        if isinstance(config, dict) and not config:
            if self.fault == "has no baseline branch":
                return bytes.fromhex(config)  # type: ignore[arg-type]
            level = "-O3"
        else:
            hexed = config[1] if isinstance(config, list) else config
            path = self.folder / f"{self.calls}.acf"
            save_compiler_config(path, hexed)
            words = path.read_text().split() if self.fault != "ignores its controls" else []
            level = next((word for word in words if word.startswith("-O")), "-O3")
        if self.fault == "serves what it built last by the path":
            if level == "-O3":
                level = self.cache.setdefault("kernel", level) and "-O0" if "-O0" in self.cache else level
            self.cache[level] = 1.0
        if self.fault == "returns a text":
            return "fast"
        if self.fault == "drifts with the level above":
            return SECONDS[level] * (1.2 if config and level == "-O3" else 1.0)
        return SECONDS[level]
