"""One child for each operator, dtype and regime of a bench: started, asked, started again when it died."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch

from kernelwright import machine
from kernelwright.errors import KernelwrightError
from kernelwright.errors import UsageError
from kernelwright.ops import dtype_name
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.process import Child
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.referee._peers import check_peer_name
from kernelwright.referee._peers import OURS
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import judge
from kernelwright.referee._statistics import MIN_PAIRS
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status

#: Keeps the pages of freed results mapped: nothing is taken from or given back to the system.
_KEEP_PAGES = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
_FEWEST_ROUNDS = 12
_MOST_ROUNDS = 600
#: A row that is not clear is given its budget again, this often at most.
_EXTENSIONS = 2
#: An interval near one says nothing if its upper end is more than this times its lower one.
_WIDEST = 3.0
#: Preparing a row may mean compiling with torch.compile, on a busy machine.
_PREPARE_S = 300.0
#: Each message has a limit of its own; a child serves all rows of an operator, dtype and regime.
_CHILD_S = 24 * 3600.0


@dataclass(frozen=True)
class BenchSettings:
    """What a bench is asked to do; `budget_s` is clock time for each row, in each process.

    `cold_bytes` is the memory walked through between two uses of a cold buffer; None: the machine's figure.
    """

    against: tuple[str, ...] = ("eager", "compile")
    modes: tuple[Mode, ...] = tuple(Mode)
    regimes: tuple[Regime, ...] = (Regime.ALLOCATING, Regime.PREALLOCATED)
    budget_s: float = 1.5
    backend: str | None = None
    processes: int = 1
    threads: int | None = None
    minimum_effect: float = 0.01
    cold_bytes: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.against:
            raise UsageError("a bench needs at least one peer, for instance eager")
        for name in self.against:
            check_peer_name(name)
        if self.processes < 1:
            raise UsageError(f"processes is {self.processes}; at least 1 is needed")
        if not self.budget_s > 0:
            raise UsageError(f"the budget is {self.budget_s} s; it has to be above zero")


@dataclass
class Measured:
    """One row in one process: paired times and judgements, or how it failed."""

    status: Status
    reason: str
    times_ns: dict[str, list[float]] = field(default_factory=dict)
    sides: dict[str, dict[str, Any]] = field(default_factory=dict)
    begin: dict[str, Any] = field(default_factory=dict)
    judgements: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)


class Runner:
    """The child of one operator, dtype and regime; started again after a row that ended it."""

    def __init__(
        self, spec: OperatorSpec, dtype: torch.dtype, regime: Regime, settings: BenchSettings, seed: int
    ) -> None:
        self._spec = spec
        self._dtype = dtype
        self._regime = regime
        self._settings = settings
        self._seed = seed
        self._child: Child | None = None

    def measure(self, workload: Workload, mode: Mode) -> Measured:
        """Measure one row; whatever becomes of the child is the row's status."""
        try:
            with machine.watch() as conditions:
                measured = self._measure(workload, mode)
            measured.conditions = dict(conditions.as_dict())
            return measured
        except ChildEnded as error:
            self.close()
            return Measured(_status_of(error.outcome.end), str(error))
        except ChildTimeout as error:
            self.close()
            return Measured(Status.HUNG, str(error))
        except ChildGarbled as error:
            self.close()
            return Measured(Status.CHEATED, f"something wrote to the referee's own channel: {error}")

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _measure(self, workload: Workload, mode: Mode) -> Measured:
        settings = self._settings
        begin = self._ask({"do": "begin", "sizes": list(workload.sizes.values()), "mode": mode}, _PREPARE_S)
        sides = {side["name"]: side for side in begin["sides"]}
        mine = sides.get(OURS)
        if mine is None or mine["status"] != Status.PASSED:
            failed = mine or begin
            return Measured(Status(failed["status"]), failed["reason"], sides=sides, begin=begin)
        times: dict[str, list[float]] = {}
        for attempt in range(1 + _EXTENSIONS):
            request = {
                "do": "rounds",
                "seconds": settings.budget_s,
                "fewest": _FEWEST_ROUNDS if not attempt else 1,
                "most": _MOST_ROUNDS,
                "seed": self._seed + attempt,
            }
            reply = self._ask(request, _PREPARE_S + 20 * settings.budget_s)
            for name, values in reply["times_ns"].items():
                times.setdefault(name, []).extend(values)
            if not _is_open(times, settings):
                break
        finish = self._ask({"do": "finish"}, _PREPARE_S)
        return Measured(Status.PASSED, "", times, sides, begin, finish["judgements"])

    def _ask(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        if self._child is None:
            self._start()
        return self._exchange(message, timeout_s)

    def _exchange(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._child is not None
        self._child.send(message)
        reply = self._child.receive(timeout_s)
        if not reply["ok"]:
            text = f"the bench of {self._spec.name} cannot go on: {reply['error']}"
            raise KernelwrightError("\n".join([text, *reply.get("traceback", "").splitlines()]))
        return reply

    def _start(self) -> None:
        import psutil

        environment = dict(os.environ)
        if self._regime is Regime.PREALLOCATED:
            environment.update(_KEEP_PAGES)
        here = machine.current()
        self._child = Child(
            [sys.executable, "-m", "kernelwright.referee._bench_child"],
            limits=Limits(wall_s=_CHILD_S),
            env=environment,
        )
        self._exchange(
            {
                "do": "setup",
                "operator": self._spec.name,
                "dtype": dtype_name(self._dtype),
                "regime": self._regime,
                "backend": self._settings.backend,
                "peers": list(self._settings.against),
                "cold_bytes": here.cold_bytes
                if self._settings.cold_bytes is None
                else self._settings.cold_bytes,
                "llc_bytes": here.llc_bytes,
                "available_bytes": psutil.virtual_memory().available,
                "seed": self._seed,
                "threads": self._settings.threads,
            },
            _PREPARE_S,
        )


def _is_open(times: Mapping[str, list[float]], settings: BenchSettings) -> bool:
    """Whether more rounds are worth their time: the contest with the better peer is not clear at 99%."""
    found = [
        estimate(times[name], times[OURS], seed=settings.seed, level=0.99) for name in times if name != OURS
    ]
    worst = min(found, key=lambda one: one.ratio, default=None)
    return worst is not None and _judged(worst, settings) is Comparison.AMBIGUOUS


def compare_sides(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], settings: BenchSettings
) -> tuple[Comparison, float, tuple[float, float]]:
    """Ours against a peer: comparison, ratio peer / ours, interval.

    `pairs` holds the paired times (peer, ours) of each process. From five processes on, each is one pair:
    what differs between processes is then in the interval. With fewer, the pairs of all are taken together.
    """
    if len(pairs) >= MIN_PAIRS:
        ratios = [estimate(theirs, mine, seed=settings.seed, resamples=1).ratio for theirs, mine in pairs]
        found = estimate(ratios, [1.0] * len(ratios), seed=settings.seed)
    else:
        theirs = [value for peer_ns, _ in pairs for value in peer_ns]
        mine = [value for _, ours_ns in pairs for value in ours_ns]
        found = estimate(theirs, mine, seed=settings.seed)
    return _judged(found, settings), found.ratio, found.interval


def _judged(found: Estimate, settings: BenchSettings) -> Comparison:
    """The comparison; near one, an interval as wide as times jump between scheduler quanta is none."""
    low, high = found.interval
    near_one = low < _WIDEST and high > 1.0 / _WIDEST
    if near_one and high > _WIDEST * low:
        return Comparison.AMBIGUOUS
    return judge(found, minimum_effect=settings.minimum_effect)


def _status_of(end: End) -> Status:
    return {End.TIMED_OUT: Status.HUNG, End.OUT_OF_MEMORY: Status.OUT_OF_MEMORY}.get(end, Status.CRASHED)
