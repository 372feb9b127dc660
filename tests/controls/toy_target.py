"""A target that needs no compiler: which options matter, and what they are worth, is written down here."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.controls import Artifact
from kernelwright.controls import BuildFailure
from kernelwright.controls import compiler_arguments
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import split_config
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Timing
from kernelwright.referee import Verdict
from kernelwright.search import StageFailure
from kernelwright.space import choice
from kernelwright.space import Space

#: Share of the time that each option is worth; options that are not here change nothing in the binary.
WORTH = {"-funroll-loops": 0.8, "-ftree-vectorize": 1.0, "-fgcse": 0.9, "-O0": 4.0}
BROKEN = "-fno-such-option"
WRONG = "-ffinite-math-only"


def options(*words: str) -> str:
    return encode_controls(Controls("gcc", words))


class Provider:
    tool = "gcc"
    version = "gcc 12.2.0 x86_64-linux-gnu"

    def space(self) -> Space:
        return Space({"-funroll-loops": choice([True])})

    def render(self, configuration: Mapping[str, Any]) -> str:
        return options(*(name for name, value in configuration.items() if value))

    def parse(self, text: str) -> dict[str, Any]:
        return dict.fromkeys(compiler_arguments(text), True)


class Toy:
    """Built from the options that matter; a call takes 1 ms times what they are worth."""

    provider = Provider()

    def __init__(self, folder: Path | str, *, parameters: bool = False, noise: float = 0.0) -> None:
        self.folder = Path(folder)
        self.parameters = Space({"unroll": choice([1, 2, 4])}) if parameters else None
        self.noise = noise
        self.caches: list[str] = []
        self.name = "toy"

    def describe(self) -> dict[str, Any]:
        return {"kind": "toy", "target": "toy", "arch": "sm_90", "provider": {"tool": "gcc"}}

    def provenance(self) -> dict[str, str]:
        return {"source": "s" * 32, "compiler": self.provider.version, "architecture": "x86_64"}

    def build(self, config: Any) -> Artifact:
        self.caches.append(os.environ.get("KERNELWRIGHT_CACHE", ""))
        parameters, text = split_config(config, mixed=self.parameters is not None)
        words = [] if text is None else compiler_arguments(text)
        if BROKEN in words:
            raise BuildFailure("compiler_crashed", "internal compiler error: in toy.c", "log")
        key = " ".join(sorted({*words} & {*WORTH, WRONG}) + sorted(f"{k}={v}" for k, v in parameters.items()))
        path = self.folder / f"{abs(hash(key))}.bin"
        path.write_text(key)
        return Artifact(path, key or "plain", resources={"spill_stores": 4 - len(words), "registers": 32})

    def measure(self, artifact: Artifact) -> float:
        words = artifact.code_key.split()
        if WRONG in words:
            raise StageFailure("off by one", kind="wrong", lasts=True)
        seconds = 1e-3
        for word in words:
            seconds *= WORTH.get(word, 1.0)
        if "unroll=4" in words:
            seconds *= 0.95
        return seconds * (random.gauss(1.0, self.noise) if self.noise else 1.0)


class Judged(Toy):
    """A toy whose artifacts the referee is said to judge, with an interval as wide as is said."""

    def __init__(self, folder: Path | str, *, half_width: float = 0.01, **kwargs: Any) -> None:
        super().__init__(folder, **kwargs)
        self.half_width = half_width
        self.judged: list[str] = []

    def confirm(self, baseline: Artifact, artifact: Artifact, *, budget_s: float, processes: int) -> Verdict:
        assert baseline.path.is_file()
        self.judged.append(artifact.code_key)
        try:
            ratio = self.measure(baseline) / self.measure(artifact)
        except StageFailure as error:
            return Verdict(Status(error.failure_kind), str(error))
        interval = (ratio * (1 - self.half_width), ratio * (1 + self.half_width))
        comparison = Comparison.FASTER if interval[0] > 1.0 else Comparison.SAME
        timing = Timing(1.0, 1.0, 1.0, 10, 0.0)
        contest = Contest(
            "candidate", "baseline", "toy", Mode.COLD, Regime.PREALLOCATED, comparison, ratio, interval,
            timing, timing, 10,
        )  # fmt: skip
        return Verdict(Status.PASSED, "", (contest,))
