"""The native referee: one measuring child that serves many checks and races."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch

from kernelwright import machine
from kernelwright import settings
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.process import Limits
from kernelwright.referee._cases import Case
from kernelwright.referee._cases import make_cases
from kernelwright.referee._check import CheckRun
from kernelwright.referee._child import default_memory_bytes
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import Patience
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._shared import SharedMemory
from kernelwright.referee._verdict import Verdict

#: Results lie in the board after the child's progress.
_BOARD_START = 4096
#: Inputs and oracles of past checks are forgotten beyond this many bytes of inputs.
_KEPT_BYTES = 4 << 30


class NativeJudge:
    """Judges kernels of the C ABI in a child process that it keeps, and starts anew when a kernel ended it.

    A context manager. `seed` is where data seeds of races come from (drawn when None); `threads` what OpenMP
    uses (torch's number when None); `patience` how long a kernel may be silent. Not for use by several threads
    at once.
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
        self.threads = threads or settings.threads() or torch.get_num_threads()
        self.patience = patience or Patience()
        size = 1 << max(32, (machine.current().memory_bytes - 1).bit_length())
        self.store = SharedMemory("referee-store", size, child_may_write=False)
        self.board = SharedMemory("referee-board", size, child_may_write=True)
        self.board.take(_BOARD_START)
        self.child = MeasuringChild(self.store, self.board, memory_bytes or default_memory_bytes())
        self._cases: dict[tuple[Any, ...], list[Case]] = {}

    def __enter__(self) -> NativeJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child and give all memory back."""
        self.child.stop()
        self._cases.clear()
        self.store.close()
        self.board.close()

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
        cases = self._cases_of(spec, describe, workloads, seed, edge)
        evidence = {
            "entrant": entrant.name,
            "library": str(entrant.library),
            "symbol": entrant.symbol,
            "seed": seed,
            "threads": self.threads,
        }
        patience = self.patience
        if limits is not None:
            patience = Patience(min(patience.silent_s, limits.wall_s), limits.wall_s)
            if limits.memory_bytes is not None and limits.memory_bytes != self.child.memory_bytes:
                self.child.stop()
                self.child.memory_bytes = limits.memory_bytes
        return CheckRun(self.child, cases, self.threads).run(entrant, patience, evidence)

    def _cases_of(
        self, spec: OperatorSpec, describe: Describe, workloads: Sequence[Workload], seed: int, edge: bool
    ) -> list[Case]:
        """Cases are kept: a search checks hundreds of kernels on the same calls."""
        key = (spec.name, tuple(workload.name for workload in workloads), seed, edge)
        if key not in self._cases:
            if self.store.top > _KEPT_BYTES:
                self.forget()
            self._cases[key] = make_cases(spec, describe, workloads, seed=seed, edge=edge, store=self.store)
        return self._cases[key]

    def forget(self) -> None:
        """Drop the inputs and oracles that are kept for later checks and races."""
        self._cases.clear()
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
    (zeros, constants, cancellation, large, small and denormal values, infinities, NaN, rows apart), is called up
    to three times: twice alike, which must agree bit by bit, and once on one thread. Outputs are filled with
    NaN beforehand; buffers are surrounded by guard bytes and by pages that must not be touched; inputs must stay
    as they were. What the kernel does, a crash or an endless loop too, ends in the verdict. Raises RefereeError,
    NoCompilerError or BuildError when the referee itself cannot work.
    """
    with NativeJudge() as judge:
        return judge.check(
            spec, entrant, describe=describe, workloads=workloads, seed=seed, edge=edge, limits=limits
        )


