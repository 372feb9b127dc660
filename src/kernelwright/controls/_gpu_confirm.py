"""Confirmation on a GPU: an artifact against the baseline's, in fresh processes with fresh data.

Each process loads the baseline twice and the artifact once, checks the artifact, and times all three in
turns. What the baseline's two copies differ by is what this machine makes of no difference at all: where it
is clear, or too uncertain, nothing is compared. The process is what the interval takes for independent.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.controls._rounds import refusal
from kernelwright.controls._target import Artifact
from kernelwright.errors import UsageError
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee._statistics import aa_gate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import judge
from kernelwright.referee._statistics import timing
from kernelwright.search import Failure
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import Through

if TYPE_CHECKING:
    from kernelwright.controls._gpu_measured import MeasuredOnGpu

#: Seconds of one process, its start and the transfer of its data to the GPU included.
_PATIENCE_S = 300.0


def confirm_on_gpu(
    target: MeasuredOnGpu,
    baseline: Artifact,
    artifact: Artifact,
    *,
    budget_s: float = 2.0,
    processes: int = 5,
    seed: int | None = None,
) -> Verdict:
    """Judge an artifact from nothing against the baseline's, in `processes` fresh processes.

    They share `budget_s` of racing time. Seeds of the inputs follow from `seed`, which is drawn when None.
    The verdict is `noisy` where the baseline differs from itself. Raises UsageError for fewer than two
    processes, from which no interval follows.
    """
    if processes < 2:
        raise UsageError(f"a confirmation on a GPU needs two processes at least; got {processes}")
    drawn = random.Random(seed)
    found = _Times()
    contest = _Contest(target, baseline, artifact, budget_s / processes)
    with (
        tempfile.TemporaryDirectory(prefix="kernelwright-contest-") as folder,
        IsoMultiProcessWorker(contest, 1, _PATIENCE_S, preload=["torch"]) as worker,
    ):
        evaluate = Through(worker)
        for process in range(processes):
            out = Path(folder) / f"{process}.json"
            answer = evaluate({"seed": drawn.randrange(1 << 30), "out": str(out)})
            if isinstance(answer, Failure):
                return Verdict(*refusal(answer), evidence={"process": process})
            found.add(process, json.loads(out.read_text()))
    return found.verdict()


@dataclass
class _Times:
    """Seconds of the baseline, of its copy and of the candidate, by round, and the process of each round."""

    rounds: list[Sequence[float]] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)

    def add(self, process: int, rounds: Sequence[Sequence[float]]) -> None:
        self.rounds += rounds
        self.processes += [process] * len(rounds)

    def verdict(self) -> Verdict:
        """What they say."""
        base, copy, own = zip(*self.rounds, strict=True)
        noise = aa_gate(base, copy, seed=0, processes=self.processes)
        evidence = {"rounds": len(self.rounds), "itself": _ratios(base, copy, self.processes)}
        if noise is not None:
            return Verdict(Status.NOISY, noise, evidence=evidence)
        said = estimate(base, own, seed=0, processes=self.processes)
        made = Contest(
            "candidate",
            "baseline",
            "",
            Mode.COLD,
            Regime.PREALLOCATED,
            judge(said),
            said.ratio,
            said.interval,
            timing([1e9 * one for one in own]),
            timing([1e9 * one for one in base]),
            len(self.rounds),
            {"ratios": _ratios(base, own, self.processes)},
        )
        return Verdict(Status.PASSED, "", (made,), evidence)


def _ratios(base: Sequence[float], own: Sequence[float], processes: Sequence[int]) -> list[float]:
    """The median ratio of each process."""
    of: dict[int, list[float]] = {}
    for process, before, after in zip(processes, base, own, strict=True):
        of.setdefault(process, []).append(before / after)
    return [round(median(one), 5) for one in of.values()]


class _Contest:
    """One process of a confirmation, as an objective whose configuration says seed and file of results."""

    def __init__(
        self, target: MeasuredOnGpu, baseline: Artifact, artifact: Artifact, budget_s: float
    ) -> None:
        self._target = target
        self._baseline, self._artifact = baseline, artifact
        self._budget_s = budget_s

    def __call__(self, config: Any) -> float:
        seeds = config["seed"], config["seed"] + 1
        bench = self._target.make_bench(replace(self._target.known_run(), seeds=seeds))
        candidate = self._target.entry_of(self._artifact)
        with bench.alone():
            bench.check(*candidate)
            rounds = bench.contest(self._target.entry_of(self._baseline), candidate, budget_s=self._budget_s)
        Path(config["out"]).write_text(json.dumps(rounds))
        return 1.0
