"""The pipeline of native CPU kernels: built by build/, judged by the referee in one long-lived child."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from kernelwright import dispatch
from kernelwright import machine
from kernelwright.build import build_many
from kernelwright.errors import BuildError
from kernelwright.errors import UsageError
from kernelwright.kernels.cpu import native_kernels
from kernelwright.kernels.cpu import NativeKernel
from kernelwright.ops import Workload
from kernelwright.referee import bench
from kernelwright.referee import BenchRow
from kernelwright.referee import confirm
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Patience
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.tuning._pipeline import Built
from kernelwright.tuning._pipeline import Candidate
from kernelwright.tuning._pipeline import Entry
from kernelwright.tuning._pipeline import Unbuilt
from kernelwright.tuning._plan import Plan
from kernelwright.tuning._record import contest_dict

#: A candidate that makes no call for this long is hung: the slowest workload's call takes milliseconds.
PATIENCE = Patience(silent_s=3.0, total_s=60.0)
#: `noisy` says nothing of the candidate: it is measured again, so often in all.
_ATTEMPTS = 2
#: A confirmation that was refused for noise is tried again where it took no longer than this, seconds.
_AGAIN_S = 12.0
#: How long to look for other work, and how much of it is worth saying.
_LISTEN_S = 0.3
_BUSY = 0.2
#: Elements above which a workload is left to the full check, which confirms finalists.
_QUICK_ELEMENTS = 1 << 22


class _OutOfTime(Exception):
    """Ends a bench after the row that used up its time."""


class NativePipeline:
    """Candidates are configurations of one operator's C++ kernel; `kernel` stands in for the registered one.

    Raises NoCompilerError, BackendUnavailableError, and UsageError where no backend of the plan has anything
    to choose.
    """

    def __init__(
        self, plan: Plan, *, kernel: NativeKernel | None = None, patience: Patience = PATIENCE
    ) -> None:
        self._plan = plan
        self._kernel = kernel or _registered(plan)
        machine.find_compiler()
        self._tier = self._kernel.tier()
        self.entries = (Entry("cpu", self._tier, self._kernel.tunables),)
        self._patience = patience
        self._judge = NativeJudge(patience=patience)

    def build(self, candidates: Sequence[Candidate]) -> list[Built | Unbuilt]:
        """One artifact a configuration, by as many compilers at once as there are cores."""
        requests = [self._kernel.request(one.configuration, one.tier) for one in candidates]
        made: list[Built | Unbuilt] = []
        for one, result in zip(candidates, build_many(requests), strict=True):
            if isinstance(result, BuildError):
                made.append(Unbuilt(one, result.status, str(result)))
                continue
            details = {
                "compiler": result.compiler,
                "flags": list(result.flags),
                "cached": result.cached,
                "library_bytes": result.library.stat().st_size,
            }
            made.append(
                Built(one, result.build_key, result.code_key, result.seconds, details, handle=result.library)
            )
        return made

    def check(self, built: Built, workloads: Sequence[Workload], *, seed: int) -> Verdict:
        """Edge shapes and the small workloads; large ones are sampled while they are raced."""
        small = [workload for workload in workloads if self._elements(workload) <= _QUICK_ELEMENTS]
        return self._judge.check(
            self._plan.spec,
            self._entrant("candidate", built),
            describe=self._kernel.describe,
            workloads=small,
            seed=seed,
        )

    def race(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        entrants: Mapping[str, Built],
        *,
        budget_s: float,
        seed: int,
    ) -> tuple[Mapping[str, Contest], Mapping[str, Verdict]]:
        """Interleaved, each in a child of its own, cold caches, preallocated outputs."""
        contests: dict[str, Contest] = {}
        verdicts: dict[str, Verdict] = {}
        left = dict(entrants)
        for attempt in range(_ATTEMPTS):
            result = self._judge.race(
                self._plan.spec,
                workload,
                self._entrant(*baseline),
                [self._entrant(name, built) for name, built in left.items()],
                describe=self._kernel.describe,
                budget_s=budget_s,
                seed=seed + attempt,
                screen=True,
            )
            contests.update(result.contests)
            verdicts.update(result.verdicts)
            left = {name: left[name] for name, bad in result.verdicts.items() if bad.status is Status.NOISY}
            if not left:
                break
        return contests, {name: bad for name, bad in verdicts.items() if name not in contests}

    def confirm(
        self,
        workload: Workload,
        baseline: tuple[str, Built],
        candidate: tuple[str, Built],
        *,
        budget_s: float,
    ) -> Verdict:
        """Full check and four contests, in a process of its own."""
        for _ in range(_ATTEMPTS):
            began = time.monotonic()
            verdict = confirm(
                self._plan.spec,
                workload,
                self._entrant(*baseline),
                self._entrant(*candidate),
                describe=self._kernel.describe,
                budget_s=budget_s,
            )
            if verdict.status is not Status.NOISY or time.monotonic() - began > _AGAIN_S:
                break
        return verdict

    def peers(self, workloads: Sequence[Workload], *, budget_s: float) -> Mapping[str, list[dict[str, Any]]]:
        """Ours, as dispatch now chooses it, against torch eager; both called from Python in one process."""
        found: dict[str, list[dict[str, Any]]] = {}
        deadline = time.monotonic() + budget_s

        def take(row: BenchRow) -> None:
            workload = workloads[len(found)]
            found[workload.name] = [
                {**contest_dict(peer.contest, "confirmed"), "baseline": "torch", "workload": workload.name}
                for peer in row.peers
                if peer.contest is not None
            ]
            if time.monotonic() > deadline:
                raise _OutOfTime

        with contextlib.suppress(_OutOfTime):
            bench(
                self._plan.operator,
                against=("eager",),
                workloads=[workload.name for workload in workloads],
                dtypes=(self._plan.dtype,),
                modes=(Mode.COLD,),
                regimes=(Regime.PREALLOCATED,),
                budget_s=min(max(0.4 * budget_s / len(workloads), 0.2), 1.5),
                on_row=take,
            )
        return found

    def provenance(self, implementation: str) -> Mapping[str, str]:
        """Sources, tier and compiler, as dispatch compares them."""
        return self._kernel.provenance()

    def disturbance(self) -> str | None:
        """The part of the processors' time that others use while this process sleeps."""
        with machine.watch() as conditions:
            time.sleep(_LISTEN_S)
        others = (conditions.busy or 0.0) + (conditions.steal or 0.0)
        if others < _BUSY:
            return None
        return f"other work takes {others:.0%} of the processors' time; times are those of a busy machine"

    def close(self) -> None:
        """End the measuring child."""
        self._judge.close()

    def _entrant(self, name: str, built: Built) -> NativeEntrant:
        return NativeEntrant(name, built.handle, self._kernel.symbol)

    def _elements(self, workload: Workload) -> int:
        cost = self._plan.spec.cost(workload)
        return cost.bytes // workload.dtype.itemsize


def _registered(plan: Plan) -> NativeKernel:
    """The native kernel that takes part, if the plan's backends let it."""
    tunable = [
        one
        for one in dispatch.implementations(plan.operator)
        if one.backend in plan.backends and one.tunables is not None
    ]
    kernels = native_kernels()
    if not tunable or plan.operator not in kernels:
        named = ", ".join(plan.backends)
        raise UsageError(
            f"nothing about {plan.operator} can be tuned with backend {named}: no implementation there "
            "declares tunables; `kernelwright list` shows which do"
        )
    return kernels[plan.operator]
