"""What targets measured on a GPU have in common: checked, raced with the baseline, confirmed."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.controls._cuda_launch import Bench
from kernelwright.controls._cuda_launch import KernelRun
from kernelwright.controls._cuda_launch import PairedTime
from kernelwright.controls._gpu_confirm import confirm_on_gpu
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import Config
from kernelwright.referee import Verdict
from kernelwright.search import StageFailure
from kernelwright.space import Configuration


class MeasuredOnGpu(abc.ABC):
    """A target whose artifacts run on a GPU, beside those of the baseline, in one process.

    The seconds returned are the baseline's as first measured here, divided by how many times as fast the
    artifact was beside it: so clocks that rise or fall do not move them. Call `calibrate` before several
    processes measure: they then share that first measurement.
    """

    def __init__(self, run: KernelRun | None) -> None:
        self.run = run
        #: Seconds of one launch of the baseline, as first measured; None before.
        self.baseline_s: float | None = None
        #: What the last race said.
        self.paired: PairedTime | None = None
        self._baseline: Artifact | None = None
        self._bench: Bench | None = None

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What people call it."""

    @abc.abstractmethod
    def build(self, config: Config) -> Artifact:
        """Compile. Raises BuildFailure, ControlsError."""

    @abc.abstractmethod
    def make_bench(self, run: KernelRun) -> Bench:
        """What checks and times artifacts as `run` says. Raises StageFailure without a GPU that can."""

    @abc.abstractmethod
    def entry_of(self, artifact: Artifact) -> tuple[Path, str, Configuration]:
        """An artifact as a bench takes it."""

    def calibrate(self) -> float:
        """Seconds of one launch of the baseline, measured unless it was."""
        if self.baseline_s is None:
            self.measure(self.build({}))
        assert self.baseline_s is not None
        return self.baseline_s

    def measure(self, artifact: Artifact) -> float:
        """Seconds of one launch, checked first, then timed in turns with the baseline in this process.

        Raises StageFailure: `wrong`, `crashed`, `hung`, `out_of_memory`, or `unsupported` without a GPU or
        without a `run`.
        """
        run = self.known_run()
        if self._bench is None:
            self._bench = self.make_bench(run)
        if self._baseline is None or not self._baseline.path.exists():
            self._baseline = self.build({})
        with self._bench.alone():
            candidate = self.entry_of(artifact)
            self._bench.check(*candidate)
            self.paired = self._bench.race(self.entry_of(self._baseline), candidate)
        if self.baseline_s is None:
            self.baseline_s = self.paired.baseline_seconds
        if artifact.code_key == self._baseline.code_key:
            return self.baseline_s
        return self.baseline_s / self.paired.ratio

    def confirm(
        self, baseline: Artifact, artifact: Artifact, *, budget_s: float = 2.0, processes: int = 5
    ) -> Verdict:
        """The verdict on an artifact against another; see `confirm_on_gpu`."""
        return confirm_on_gpu(self, baseline, artifact, budget_s=budget_s, processes=processes)

    def known_run(self) -> KernelRun:
        """How it is launched. Raises StageFailure where it was not told."""
        if self.run is None:
            raise StageFailure(
                f"{self.name} was given no `run`, which says how it is launched and what is right",
                kind="unsupported",
            )
        return self.run

    def __getstate__(self) -> Mapping[str, Any]:
        # What lies on a GPU stays with its process.
        return {**self.__dict__, "_bench": None, "paired": None}
