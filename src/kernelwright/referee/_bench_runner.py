"""A bench's children: one for each contestant, asked for blocks in turn, started again when one died.

No contestant shares a process with another, so none can slow another down from within, patch what it uses or
leave its caches to it; all map the same ring of buffers, for the reason that `_python_rotation` gives. Who is
asked next is drawn here, and only when whoever ran last has come to rest: OpenMP's threads spin for
milliseconds after a call, and would spin beside the next contestant.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
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
from kernelwright.process import Template
from kernelwright.referee._peers import check_peer_name
from kernelwright.referee._peers import OURS
from kernelwright.referee._python_clock import longer
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import judge
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract._conduct import wait_quiet

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
#: Whoever ran last is given this long to come to rest.
_REST_S = 0.25
#: The ring's file: memory is only taken where the ring is.
_RING_BYTES = 1 << 40
_CHILD = "kernelwright.referee._bench_child"
_SCRIPT = Path(__file__).with_name("_bench_child.py")


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


class Templates:
    """What children are forked from: processes that have imported torch and us, started all at once.

    One for each regime, since the C library reads how to keep its heap when a process starts. A context
    manager.
    """

    def __init__(self, regimes: Sequence[Regime]) -> None:
        self._environments = {
            regime: {**os.environ, **(_KEEP_PAGES if regime is Regime.PREALLOCATED else {})}
            for regime in dict.fromkeys(regimes)
        }
        self._templates: dict[Regime, Template] = {}

    def __enter__(self) -> Templates:
        for regime, environment in self._environments.items():
            self._templates[regime] = Template([_CHILD], env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        for template in self._templates.values():
            template.close()

    def child(self, regime: Regime, ring: int) -> Child:
        """A fresh child for one contestant, which may map `ring`."""
        return self._templates[regime].child(
            _SCRIPT,
            limits=Limits(wall_s=_CHILD_S),
            env=self._environments[regime],
            cwd=Path.cwd(),
            pass_fds=(ring,),
        )


class Runner:
    """The children of one operator, dtype and regime; one that died is started again for the next row."""

    def __init__(
        self,
        spec: OperatorSpec,
        dtype: torch.dtype,
        regime: Regime,
        settings: BenchSettings,
        seed: int,
        templates: Templates,
    ) -> None:
        self._spec = spec
        self._dtype = dtype
        self._regime = regime
        self._settings = settings
        self._seed = seed
        self._templates = templates
        self._names = (OURS, *settings.against)
        self._children: dict[str, Child] = {}
        self._ring = os.memfd_create("kernelwright-ring", os.MFD_CLOEXEC)
        os.ftruncate(self._ring, _RING_BYTES)

    def measure(self, workload: Workload, mode: Mode) -> Measured:
        """Measure one row. What becomes of our child is the row's status, of a peer's child the peer's."""
        with machine.watch() as conditions:
            measured = self._measure(workload, mode)
        measured.conditions = dict(conditions.as_dict())
        return measured

    def close(self) -> None:
        """End all children."""
        for name in list(self._children):
            self._end(name)
        if self._ring >= 0:
            os.close(self._ring)
            self._ring = -1

    def _measure(self, workload: Workload, mode: Mode) -> Measured:
        settings = self._settings
        row = Measured(Status.PASSED, "")
        for name in self._names:
            # The ring is filled once, by the first.
            begin = {
                "do": "begin",
                "sizes": list(workload.sizes.values()),
                "mode": mode,
                "fill": name == OURS,
            }
            reply = self._try(name, begin, row)
            if reply is None:
                continue
            if reply["side"] is None:
                return Measured(Status(reply["status"]), reply["reason"], begin=reply)
            row.sides[name] = reply["side"]
            if name == OURS:
                row.begin = reply
        mine = row.sides[OURS]
        if mine["status"] != Status.PASSED:
            return Measured(Status(mine["status"]), mine["reason"], sides=row.sides, begin=row.begin)
        place = 0
        for attempt in range(1 + _EXTENSIONS):
            fewest = _FEWEST_ROUNDS if not attempt else 1
            place = self._rounds(row, place, fewest, self._seed + attempt)
            if not self._racing(row, OURS) or not _is_open(self._times(row), settings):
                break
        for name in self._names:
            if self._racing(row, name):
                judged = self._try(name, {"do": "finish"}, row)
                if judged is not None:
                    row.judgements[name] = {key: judged[key] for key in ("problem", "checked")}
        row.times_ns = self._times(row)
        mine = row.sides[OURS]
        row.status, row.reason = Status(mine["status"]), mine["reason"]
        return row

    def _rounds(self, row: Measured, place: int, fewest: int, seed: int) -> int:
        """Ask for blocks in random order until time is up; where in the ring the next one begins."""
        draw = random.Random(seed)
        began = time.monotonic()
        done = 0
        while done < _MOST_ROUNDS and (done < fewest or time.monotonic() - began < self._settings.budget_s):
            racing = [name for name in self._names if self._racing(row, name)]
            if OURS not in racing or len(racing) < 2:
                break
            for name in draw.sample(racing, len(racing)):
                side = row.sides[name]
                message = {
                    "do": "block",
                    "calls": longer(side["calls"], draw),
                    "lead": side["lead"],
                    "place": place,
                }
                reply = self._try(name, message, row)
                if reply is None:
                    continue
                row.times_ns.setdefault(name, []).append(reply["ns"])
                side["calls"], side["lead"] = reply["calls"], reply["lead"]
                place += reply["used"]
                wait_quiet(self._children[name], _REST_S)
            # A round that somebody did not finish counts for nobody.
            whole = min(
                len(row.times_ns.get(name, [])) for name in racing if self._racing(row, name) or name == OURS
            )
            for name in racing:
                del row.times_ns.get(name, [])[whole:]
            done += 1
        return place

    def _racing(self, row: Measured, name: str) -> bool:
        side = row.sides.get(name)
        return side is not None and side["status"] == Status.PASSED

    def _times(self, row: Measured) -> dict[str, list[float]]:
        return {name: times for name, times in row.times_ns.items() if self._racing(row, name)}

    def _try(self, name: str, message: Mapping[str, Any], row: Measured) -> dict[str, Any] | None:
        """Ask one child; where it fails, that becomes its side's status, and None comes back."""
        try:
            return self._ask(name, message)
        except ChildEnded as error:
            status, reason = _status_of(error.outcome.end), str(error)
        except ChildTimeout as error:
            status, reason = Status.HUNG, str(error)
        except ChildGarbled as error:
            status = Status.CHEATED
            reason = f"something wrote to the referee's own channel: {error}"
        self._end(name)
        side = row.sides.get(name, {"name": name, "form": "", "calls": 0, "lead": 0})
        row.sides[name] = {**side, "status": status, "reason": reason}
        return None

    def _end(self, name: str) -> None:
        self._children.pop(name).kill()

    def _ask(self, name: str, message: Mapping[str, Any]) -> dict[str, Any]:
        if name not in self._children:
            self._children[name] = self._templates.child(self._regime, self._ring)
            self._exchange(name, self._setup(name))
        return self._exchange(name, message)

    def _exchange(self, name: str, message: Mapping[str, Any]) -> dict[str, Any]:
        child = self._children[name]
        child.send(message)
        # Preparing may mean compiling, and a block as long as a cold call of the largest size takes.
        reply = child.receive(_PREPARE_S)
        if not reply["ok"]:
            text = f"the bench of {self._spec.name} cannot go on: {reply['error']}"
            raise KernelwrightError("\n".join([text, *reply.get("traceback", "").splitlines()]))
        return reply

    def _setup(self, name: str) -> dict[str, Any]:
        import psutil

        here = machine.current()
        cold = self._settings.cold_bytes
        return {
            "do": "setup",
            "side": name,
            "contestants": len(self._names),
            "operator": self._spec.name,
            "dtype": dtype_name(self._dtype),
            "regime": self._regime,
            "backend": self._settings.backend,
            "ring": self._ring,
            "cold_bytes": here.cold_bytes if cold is None else cold,
            "llc_bytes": here.llc_bytes,
            "available_bytes": psutil.virtual_memory().available,
            "seed": self._seed,
            "threads": self._settings.threads,
            # Peers may be modules from where the user stands.
            "path": [str(Path.cwd()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))],
        }


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

    `pairs` holds the paired times (peer, ours) of each process. With several, the process is the unit: what
    differs between processes is then in the interval.
    """
    theirs = [value for peer_ns, _ in pairs for value in peer_ns]
    mine = [value for _, ours_ns in pairs for value in ours_ns]
    processes = [number for number, (peer_ns, _) in enumerate(pairs) for _ in peer_ns]
    found = estimate(theirs, mine, seed=settings.seed, processes=processes)
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
