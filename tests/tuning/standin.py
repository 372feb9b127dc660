"""A pipeline that builds and times nothing: it knows how fast each configuration is, and who misbehaves."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kernelwright import space
from kernelwright.ops import Workload
from kernelwright.process import Child
from kernelwright.process import Limits
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Timing
from kernelwright.referee import Verdict
from kernelwright.space import Configuration
from kernelwright.space import Space
from kernelwright.tuning import Built
from kernelwright.tuning import Candidate
from kernelwright.tuning import Entry
from kernelwright.tuning import Unbuilt

SPACE = Space(
    {
        "unroll": space.choice([1, 2, 4, 8]),
        "rows": space.range(1, 4),
        "kind": space.choice(["plain", "zeros", "crash", "hang", "uncompilable"]),
        "comment": space.flag(),
    },
    ["unroll * rows <= 24"],
)
FAULTS = {
    "zeros": (Status.WRONG, "max error 3.2 at row 0"),
    "crash": (Status.CRASHED, "signal 11"),
    "hang": (Status.HUNG, "no answer in 2 s"),
}


def speed(configuration: Mapping[str, Any], workload: Workload) -> float:
    """How many times faster than the default: best at unroll 4, and at rows 3 where the workload is large."""
    wanted = 3 if workload.sizes["rows"] > 100 else 1
    return float(
        1.3 ** -abs({1: 0, 2: 1, 4: 2, 8: 3}[configuration["unroll"]] - 2)
        * 1.1 ** -abs(configuration["rows"] - wanted)
        * 1.3**2
        * 1.1 ** abs(1 - wanted)
    )


class StandIn:
    """Keeps count of what it was asked to do; `diary` lists it in a file that survives `kill -9`."""

    def __init__(
        self,
        *,
        tested: Space = SPACE,
        speed: Callable[[Mapping[str, Any], Workload], float] = speed,
        delay_s: float = 0.0,
        diary: Path | None = None,
        confirmed_effect: float = 1.0,
        provenance: str = "source-1",
        child: bool = False,
    ) -> None:
        self.entries = (Entry("cpu", "generic", tested),)
        self.counts: Counter[str] = Counter()
        self.closed = False
        self.order: list[str] = []
        self._speed = speed
        self._delay_s = delay_s
        self._diary = diary
        self._confirmed_effect = confirmed_effect
        self._provenance = provenance
        self._child = Child(["sleep", "600"], limits=Limits(wall_s=600)) if child else None
        self.interrupt_after: int | None = None

    def build(self, candidates: Sequence[Candidate]) -> list[Built | Unbuilt]:
        made: list[Built | Unbuilt] = []
        for one in candidates:
            self._note("build", one.configuration)
            if one.configuration["kind"] == "uncompilable":
                made.append(Unbuilt(one, "build_failed", "error: expected ';'", 0.1))
                continue
            seen = {name: value for name, value in one.configuration.items() if name != "comment"}
            code = hashlib.sha256(repr(seen).encode()).hexdigest()[:16]
            made.append(Built(one, f"b-{code}-{one.configuration['comment']}", code, 0.1, {"flags": ["-O3"]}))
        return made

    def check(self, built: Built, workloads: Sequence[Workload], *, seed: int) -> Verdict:
        self._note("check", built.candidate.configuration)
        kind = built.candidate.configuration["kind"]
        if kind == "zeros":
            return Verdict(*FAULTS["zeros"])
        return Verdict(Status.PASSED, "right on 20 calls")

    def race(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        entrants: Mapping[str, Built],
        *,
        budget_s: float,
        seed: int,
    ) -> tuple[Mapping[str, Contest], Mapping[str, Verdict]]:
        contests, verdicts = {}, {}
        for name, built in entrants.items():
            self._note("race", built.candidate.configuration)
            kind = built.candidate.configuration["kind"]
            if kind in FAULTS:
                verdicts[name] = Verdict(*FAULTS[kind])
            else:
                contests[name] = self._contest(workload, baseline, (name, built), 1.0)
        return contests, verdicts

    def confirm(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        candidate: tuple[str, Built],
        *,
        budget_s: float,
    ) -> Verdict:
        self._note("confirm", candidate[1].candidate.configuration)
        contests = tuple(
            self._contest(workload, baseline, candidate, self._confirmed_effect, mode, regime)
            for mode in Mode
            for regime in Regime
        )
        return Verdict(Status.PASSED, "right on 40 calls", contests)

    def peers(self, workloads: Sequence[Workload], *, budget_s: float) -> Mapping[str, list[dict[str, Any]]]:
        self._note("peers", {})
        torch = Timing(1500.0, 1490.0, 1510.0, 50, 0.01)
        ours = Timing(1000.0, 990.0, 1010.0, 50, 0.01)
        return {
            workload.name: [
                {
                    "candidate": "kernelwright",
                    "baseline": "torch",
                    "workload": workload.name,
                    "mode": "cold",
                    "regime": "preallocated",
                    "comparison": "faster",
                    "ratio": 1.5,
                    "interval": [1.4, 1.6],
                    "candidate_time": asdict(ours),
                    "baseline_time": asdict(torch),
                    "blocks": 10,
                    "conditions": {},
                    "stage": "confirmed",
                }
            ]
            for workload in workloads
        }

    def provenance(self, implementation: str) -> Mapping[str, str]:
        return {"source": self._provenance, "compiler": "gcc 13"}

    def disturbance(self) -> str | None:
        return None

    def close(self) -> None:
        self.closed = True
        if self._child is not None:
            self._child.kill()

    def _contest(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        entrant: tuple[str, Built],
        effect: float,
        mode: Mode = Mode.COLD,
        regime: Regime = Regime.PREALLOCATED,
    ) -> Contest:
        own = self._speed(entrant[1].candidate.configuration, workload)
        ratio = (own / self._speed(baseline[1].candidate.configuration, workload)) ** effect
        low, high = ratio * 0.995, ratio * 1.005
        comparison = Comparison.SAME
        if low > 1 and ratio > 1.01:
            comparison = Comparison.FASTER
        elif high < 1 and ratio < 0.99:
            comparison = Comparison.SLOWER
        timing = Timing(1000.0 / own, 990.0 / own, 1010.0 / own, 50, 0.01)
        return Contest(
            entrant[0],
            baseline[0],
            workload.name,
            mode,
            regime,
            comparison,
            ratio,
            (low, high),
            timing,
            timing,
            10,
        )

    def _note(self, what: str, configuration: Configuration) -> None:
        self.counts[what] += 1
        self.order.append(what)
        if self._diary is not None:
            with self._diary.open("a") as stream:
                stream.write(f"{what} {configuration}\n")
        if self.interrupt_after is not None and sum(self.counts.values()) > self.interrupt_after:
            raise KeyboardInterrupt
        time.sleep(self._delay_s)


def work(
    environment: Mapping[str, str], diary: Path, budget_s: float, run: str | None, name: Connection
) -> None:
    """A run in a process of its own; sends the run's name as soon as it has one."""
    from kernelwright.tuning import RunOpened
    from kernelwright.tuning import tune

    os.environ.update(environment)

    def listen(event: object) -> None:
        if isinstance(event, RunOpened):
            name.send(event.run.id)

    tune(
        None if run else "rms_norm",
        budget_s=budget_s,
        seed=3,
        run=run,
        on_event=listen,
        pipeline=lambda _: StandIn(delay_s=0.004, diary=diary, child=True),
    )
