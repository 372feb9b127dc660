"""The clock for callables in this process: blocks of calls, contestants interleaved in random order.

Each contestant is called the way a person would write the call, as an expression compiled into a loop of its
own (the way of timeit), so that no wrapper stands between the clock and what is measured.
"""

from __future__ import annotations

import contextlib
import gc
import math
import random
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol

#: A block lasts at least this long, or is one call.
BLOCK_NS = 1_000_000
#: Calls longer than this need no call ahead of the block to wake threads and reload code.
_NO_LEAD_NS = 20_000_000
_LARGEST_BLOCK = 5_000
_TRIES = 5

Slot = tuple[Any, ...]
#: Gives the arguments of the next n calls; called while the clock does not run.
Feeder = Callable[[int], Sequence[Slot]]


class Observer(Protocol):
    """Looks at a contestant's blocks while the clock does not run."""

    def before(self) -> None:
        """Called when the arguments of a block are ready."""

    def after(self, result: Any) -> None:
        """Called with the last result of the block."""


@dataclass
class Contestant:
    """One side of a race: `call` is an expression over `names` (one value of a slot each) and `namespace`."""

    name: str
    call: str
    names: tuple[str, ...]
    namespace: Mapping[str, Any]
    feed: Feeder
    observer: Observer | None = None
    #: Calls ahead of a block that the clock does not count, at least.
    lead: int = 1
    #: The shortest time of one call in any block so far; it decides how many calls the next block has.
    best_ns: float = math.inf

    def __post_init__(self) -> None:
        self._loop = _compile_loop(self.call, self.names, self.namespace)

    @property
    def calls(self) -> int:
        """Calls of a block: as many as last BLOCK_NS, or one."""
        return max(1, min(_LARGEST_BLOCK, math.ceil(1.1 * BLOCK_NS / max(self.best_ns, 1.0))))

    @property
    def block_lead(self) -> int:
        """Calls ahead of a block, which wake threads and bring code back, or none where a call is long."""
        return 0 if self.best_ns > _NO_LEAD_NS else max(self.lead, self.calls // 4)

    def run(self, calls: int, lead: int) -> float:
        """Run `calls` calls right after `lead` calls that do not count; nanoseconds of one."""
        slots = self.feed(lead + calls)
        if self.observer is not None:
            self.observer.before()
        elapsed, result = self._loop(slots[:lead], slots[lead:])
        self.best_ns = min(self.best_ns, elapsed / calls)
        if self.observer is not None:
            self.observer.after(result)
        return float(elapsed / calls)


def callable_contestant(name: str, function: Callable[[], Any]) -> Contestant:
    """A contestant that calls `function()` with no arguments."""
    return Contestant(name, "function()", (), {"function": function}, lambda calls: [()] * calls)


@dataclass(frozen=True)
class Rounds:
    """Paired times: the n-th entries of all contestants come from the same round, nanoseconds a call."""

    times_ns: Mapping[str, list[float]]
    calls: Mapping[str, int]
    wall_s: float


def calibrate(contestants: Sequence[Contestant]) -> None:
    """Warm each contestant up and learn how long its calls take."""
    for contestant in contestants:
        # The first calls pay for lazy set-up.
        contestant.run(1, 1)
        contestant.best_ns = math.inf
        contestant.run(1, 0)
        for _ in range(_TRIES):
            if contestant.best_ns > _NO_LEAD_NS:
                break
            contestant.run(max(1, contestant.calls // 4), 1)


def run_rounds(
    contestants: Sequence[Contestant], *, seconds: float, fewest: int, most: int, seed: int
) -> Rounds:
    """Interleave blocks of all contestants for about `seconds`, within `fewest` and `most` rounds."""
    generator = random.Random(seed)
    times: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    began = time.perf_counter()
    done = 0
    with without_garbage():
        while done < most and (done < fewest or time.perf_counter() - began < seconds):
            for contestant in generator.sample(contestants, len(contestants)):
                calls = contestant.calls
                times[contestant.name].append(contestant.run(longer(calls, generator), contestant.block_lead))
            done += 1
    return Rounds(times, {one.name: one.calls for one in contestants}, time.perf_counter() - began)


def longer(calls: int, generator: random.Random) -> int:
    """The length of a block; it moves a little, so that the call looked at is not always the same one."""
    return calls + generator.randint(0, calls // 8)


def _compile_loop(call: str, names: tuple[str, ...], namespace: Mapping[str, Any]) -> Callable[..., Any]:
    target = f"({', '.join(names)},)" if names else "_"
    source = (
        "def loop(lead, slots):\n"
        "    result = None\n"
        f"    for {target} in lead:\n"
        f"        result = {call}\n"
        "    start = clock()\n"
        f"    for {target} in slots:\n"
        f"        result = {call}\n"
        "    return clock() - start, result\n"
    )
    scope: dict[str, Any] = {**namespace, "clock": time.perf_counter_ns}
    exec(compile(source, f"<block of {call}>", "exec"), scope)
    loop: Callable[..., Any] = scope["loop"]
    return loop


@contextlib.contextmanager
def without_garbage(*, collect: bool = True) -> Iterator[None]:
    """No garbage collection inside a block; with `collect`, what there is goes before."""
    enabled = gc.isenabled()
    if collect:
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
