"""The native referee: checks and races of kernels of the C ABI, each kernel in a child of its own."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from kernelwright import machine
from kernelwright import settings
from kernelwright.errors import UsageError
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.process import Limits
from kernelwright.referee import _layout as layout
from kernelwright.referee._cases import Case
from kernelwright.referee._cases import make_cases
from kernelwright.referee._check import CheckRun
from kernelwright.referee._child import default_memory_bytes
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._course import Course
from kernelwright.referee._course import write_plan
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeCallLike
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._native_pool import Pool
from kernelwright.referee._native_result import Rules
from kernelwright.referee._native_seal import code_of
from kernelwright.referee._race import Race
from kernelwright.referee._race import RaceResult
from kernelwright.referee._race import time_course
from kernelwright.referee._race_data import contents_of
from kernelwright.referee._race_data import make_race_data
from kernelwright.referee._race_data import RaceData
from kernelwright.referee._shared import SharedMemory
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Timing
from kernelwright.referee._verdict import Verdict

#: Inputs and oracles of past checks are forgotten beyond this many bytes of inputs.
_KEPT_BYTES = 4 << 30


class NativeJudge:
    """Judges kernels of the C ABI, each in a child process of its own.

    A context manager. `seed` is where data seeds of races come from (drawn when None); `threads` what OpenMP
    uses (torch's number when None); `patience` how long a kernel may be silent. Not for use by several
    threads at once.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        threads: int | None = None,
        patience: Patience | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self.seed = secrets.randbits(48) if seed is None else seed
        self._draw = random.Random(self.seed)
        self.threads = threads or settings.threads() or torch.get_num_threads()
        self.patience = patience or Patience()
        size = 1 << max(32, (machine.current().memory_bytes - 1).bit_length())
        self.store = SharedMemory("referee-store", size, child_may_write=False)
        self.pool = Pool(self.store, memory_bytes=memory_bytes or default_memory_bytes())
        self._cases: dict[tuple[Any, ...], tuple[list[Case], list[str]]] = {}
        self._race_data: dict[tuple[str, str], RaceData] = {}

    def __enter__(self) -> NativeJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all children and give all memory back."""
        self.pool.close()
        self._cases.clear()
        self._race_data.clear()
        self.store.close()

    def check(
        self,
        spec: OperatorSpec,
        entrant: NativeEntrant,
        *,
        describe: Describe,
        workloads: Sequence[Workload],
        seed: int,
        edge: bool = True,
        limits: Limits | None = None,
    ) -> Verdict:
        """Whether a kernel is right; see the function `check`."""
        cases, not_called = self._cases_of(spec, describe, workloads, seed, edge)
        evidence = {
            "entrant": entrant.name,
            "library": str(entrant.library),
            "code": code_of(entrant.library),
            "symbol": entrant.symbol,
            "seed": seed,
            "threads": self.threads,
            "not_called": not_called,
        }
        patience = self.patience
        if limits is not None:
            patience = Patience(min(patience.silent_s, limits.wall_s), limits.wall_s)
        child = self.pool.child(limits.memory_bytes if limits is not None else None)
        try:
            return CheckRun(child, cases, self.threads).run(entrant, patience, evidence)
        finally:
            self.pool.stop(child)
            self.pool.get_ready()

    def race(
        self,
        spec: OperatorSpec,
        workload: Workload,
        baseline: NativeEntrant,
        entrants: Sequence[NativeEntrant],
        *,
        describe: Describe,
        mode: Mode = Mode.COLD,
        regime: Regime = Regime.PREALLOCATED,
        budget_s: float = 1.0,
        seed: int = 0,
        minimum_effect: float = 0.01,
        screen: bool = False,
    ) -> RaceResult:
        """Race entrants against a baseline; see the function `race`. The data stay the same within a judge.

        With `screen`, which is for choosing among many and proves nothing: who is far behind is not measured
        on, fewer outputs are looked at, of large ones some rows, and the children of entrants that ran
        rightly are kept for their next race.
        """
        names = [entrant.name for entrant in entrants]
        if len(set(names)) != len(names):
            raise UsageError(f"entrants of a race need names of their own; got {', '.join(names)}")
        if len(names) >= layout.CONTESTANTS:
            raise UsageError(f"a race takes at most {layout.CONTESTANTS - 1} entrants; got {len(names)}")
        rules = replace(self.rules(mode, regime, budget_s, seed, minimum_effect), screen=screen)
        return Race(self.pool, self.race_data(spec, describe, workload), rules).run(baseline, entrants)

    def rules(self, mode: Mode, regime: Regime, budget_s: float, seed: int, minimum_effect: float) -> Rules:
        """How this judge runs a race."""
        return Rules(mode, regime, budget_s, seed, minimum_effect, self.threads, self.patience)

    def time(
        self,
        entrant: NativeEntrant,
        call: NativeCallLike,
        *,
        mode: Mode = Mode.WARM,
        budget_s: float = 0.2,
        inputs: Mapping[str, Tensor] | None = None,
        threads: int | None = None,
    ) -> Timing:
        """Time one kernel that nobody judges; see the function `time_native`."""
        top = self.store.top
        child = self.pool.child()
        threads = threads or self.threads
        try:
            sources = {
                buffer.name: self.store.put(contents_of(call, index, inputs), buffer.nbytes)
                for index, buffer in enumerate(call.buffers)
                if not buffer.output
            }
            plan_at = write_plan(
                self.store,
                call,
                [sources],
                data=None,
                mode=mode,
                regime=Regime.PREALLOCATED,
                threads=threads,
                contestants=1,
                seed=self.seed,
            )
            lane = Lane(entrant, child, self.patience, call.buffers)
            self.pool.settle()
            lane.open(plan_at)
            course = Course([lane], data=None, mode=mode)
            return time_course(course, budget_s)
        except KernelFailure as failure:
            raise RefereeError(f"{entrant.name} cannot be timed: it {failure.reason}") from failure
        finally:
            child.stop()
            self.store.release(top)

    def race_data(self, spec: OperatorSpec, describe: Describe, workload: Workload) -> RaceData:
        """The inputs of a workload's races, drawn when they are first asked for."""
        key = (spec.name, workload.name)
        if key not in self._race_data:
            if self.store.top > _KEPT_BYTES:
                self.forget()
            seed = self._draw.getrandbits(48)
            self._race_data[key] = make_race_data(spec, describe, workload, seed=seed, store=self.store)
        return self._race_data[key]

    def _cases_of(
        self, spec: OperatorSpec, describe: Describe, workloads: Sequence[Workload], seed: int, edge: bool
    ) -> tuple[list[Case], list[str]]:
        """Cases are kept: a search checks hundreds of kernels on the same calls."""
        key = (spec.name, tuple(workload.name for workload in workloads), seed, edge)
        if key not in self._cases:
            if self.store.top > _KEPT_BYTES:
                self.forget()
            left_out: list[str] = []
            cases = make_cases(
                spec,
                describe,
                workloads,
                seed=seed,
                edge=edge,
                store=self.store,
                not_called=left_out,
            )
            self._cases[key] = cases, left_out
        return self._cases[key]

    def forget(self) -> None:
        """Drop the inputs and oracles that are kept for later checks and races."""
        self._cases.clear()
        self._race_data.clear()
        self.pool.drop_entrants()
        self.pool.drop_baseline()
        self.pool.drop_spare()
        self.store.release(0)


def check(
    spec: OperatorSpec,
    entrant: NativeEntrant,
    *,
    describe: Describe,
    workloads: Sequence[Workload],
    seed: int,
    edge: bool = True,
    limits: Limits | None = None,
) -> Verdict:
    """Whether a kernel is right, judged in a process of its own.

    Each workload, and with `edge` the operator's edge shapes, shapes drawn from `seed` and special contents
    (zeros, constants, cancellation, large, small and denormal values, infinities, NaN, rows apart), is called
    up to three times: twice alike, which must agree bit by bit, and once on one thread. Outputs are filled
    with NaN beforehand; buffers are surrounded by guard bytes and by pages that must not be touched; inputs
    must stay as they were. What the kernel does, a crash or an endless loop too, ends in the verdict. Raises
    RefereeError, NoCompilerError or BuildError when the referee itself cannot work.
    """
    with NativeJudge() as judge:
        return judge.check(
            spec, entrant, describe=describe, workloads=workloads, seed=seed, edge=edge, limits=limits
        )


def race(
    spec: OperatorSpec,
    workload: Workload,
    baseline: NativeEntrant,
    entrants: Sequence[NativeEntrant],
    *,
    describe: Describe,
    mode: Mode = Mode.COLD,
    regime: Regime = Regime.PREALLOCATED,
    budget_s: float = 1.0,
    seed: int = 0,
    minimum_effect: float = 0.01,
) -> RaceResult:
    """Race kernels of one workload against a baseline, each in a process of its own.

    They take turns in random order, a batch of calls of some 10 ms at a time, timed by the process and
    cross-checked by our clock; nothing of the others may run meanwhile. `cold`: each buffer set is used once
    between two emptyings of the caches, and no set has been touched since. `warm`: two sets, touched right
    before. No call meets contents that an earlier one has met; outputs of timed calls, drawn afterwards, are
    judged. An entrant that is wrong, crashes, hangs or deceives has a verdict instead of a contest; `noisy`
    takes the place of all contests where the baseline's own times forbid a comparison, `impossible` where a
    time is below what the machine can do. Comparisons of several entrants are held to one level together
    (Holm). Measuring goes on until every contest is clearly decided or `budget_s` is used up. Raises
    RefereeError when the baseline itself fails.
    """
    with NativeJudge() as judge:
        return judge.race(
            spec,
            workload,
            baseline,
            entrants,
            describe=describe,
            mode=mode,
            regime=regime,
            budget_s=budget_s,
            seed=seed,
            minimum_effect=minimum_effect,
        )


def time_native(
    library: Path,
    symbol: str,
    call: NativeCallLike,
    *,
    mode: Mode = Mode.WARM,
    budget_s: float = 0.2,
    inputs: Mapping[str, Tensor] | None = None,
    threads: int | None = None,
) -> Timing:
    """Time one kernel that nobody judges, as the probes of a machine's ceilings are.

    `inputs` gives the contents of buffers by name; the others get normally distributed numbers of their
    dtype. Several timings are cheaper with one `NativeJudge` and its method `time`. Raises RefereeError when
    the kernel fails.
    """
    with NativeJudge() as judge:
        return judge.time(
            NativeEntrant(symbol, library, symbol),
            call,
            mode=mode,
            budget_s=budget_s,
            inputs=inputs,
            threads=threads,
        )
