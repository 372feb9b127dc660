"""The clock for callables in this process: blocks of calls, contestants interleaved in random order.

Each contestant is called the way a person would write the call, as an expression compiled into a loop of its
own (the way of timeit), so that no wrapper stands between the clock and what is measured.
"""

from __future__ import annotations

import contextlib
import gc
import random
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

#: A block lasts at least this long, or is one call.
BLOCK_NS = 1_000_000
#: Calls longer than this need no call ahead of the block to wake threads and reload code.
_NO_LEAD_NS = 20_000_000
_LARGEST_BLOCK = 5_000
_TRIES = 5

Slot = tuple[Any, ...]
#: Gives the arguments of the next n calls; called while the clock does not run.
Feeder = Callable[[int], Sequence[Slot]]
#: Sees the last result of a block, after the clock stopped.
Observer = Callable[[Any], None]


@dataclass
class Contestant:
    """One side of a race: `call` is an expression over `names` (one value of a slot each) and `namespace`."""

    name: str
    call: str
    names: tuple[str, ...]
    namespace: Mapping[str, Any]
    feed: Feeder
    observe: Observer | None = None
    calls: int = 1
    times_ns: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._loop = _compile_loop(self.call, self.names, self.namespace)

    def run(self, calls: int) -> float:
        """Run a block of `calls` calls; nanoseconds of one."""
        slots = self.feed(calls)
        elapsed, result = self._loop(slots)
        if self.observe is not None:
            self.observe(result)
        return elapsed / calls

    def sample(self) -> tuple[float, Any]:
        """Run one call that nobody observes; nanoseconds and its result."""
        elapsed, result = self._loop(self.feed(1))
        return float(elapsed), result


def callable_contestant(name: str, function: Callable[[], Any], observe: Observer | None = None) -> Contestant:
    """A contestant that calls `function()` with no arguments."""
    return Contestant(name, "function()", (), {"function": function}, lambda calls: [()] * calls, observe)


@dataclass(frozen=True)
class Rounds:
    """Paired times: the n-th entries of all contestants come from the same round, nanoseconds a call."""

    times_ns: Mapping[str, list[float]]
    calls: Mapping[str, int]
    wall_s: float


def calibrate(contestants: Sequence[Contestant], *, block_ns: int = BLOCK_NS) -> None:
    """Warm each contestant up and choose the calls of its block, so that a block lasts `block_ns`."""
    with _quiet():
        for contestant in contestants:
            contestant.run(1)
            best = contestant.run(1)
            calls = 1
            # The least of several tries: a first call pays for lazy set-up, any call for what else runs here.
            for _ in range(_TRIES):
                if best > _NO_LEAD_NS:
                    break
                best = min(best, contestant.run(calls))
                calls = _calls_for(best, block_ns / 4)
            contestant.calls = _calls_for(best, block_ns * 1.15)


def run_rounds(
    contestants: Sequence[Contestant], *, seconds: float, fewest: int, most: int, seed: int
) -> Rounds:
    """Interleave blocks of all contestants for about `seconds`, at least `fewest` and at most `most` rounds."""
    generator = random.Random(seed)
    times: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    began = time.perf_counter()
    last = [float("inf")] * len(contestants)
    done = 0
    with _quiet():
        while done < most and (done < fewest or time.perf_counter() - began < seconds):
            order = list(range(len(contestants)))
            generator.shuffle(order)
            for index in order:
                contestant = contestants[index]
                if last[index] < _NO_LEAD_NS:
                    contestant.run(1)
                # A length that moves a little keeps the sampled call from being always the same one.
                spare = contestant.calls // 8
                calls = contestant.calls + (generator.randint(0, spare) if spare else 0)
                last[index] = contestant.run(calls)
                times[contestant.name].append(last[index])
            done += 1
    return Rounds(
        times, {contestant.name: contestant.calls for contestant in contestants}, time.perf_counter() - began
    )


def _calls_for(per_call_ns: float, target_ns: float) -> int:
    return max(1, min(_LARGEST_BLOCK, round(target_ns / max(per_call_ns, 1.0) + 0.5)))


def _compile_loop(call: str, names: tuple[str, ...], namespace: Mapping[str, Any]) -> Callable[..., Any]:
    target = f"({', '.join(names)},)" if names else "_"
    source = (
        "def loop(slots):\n"
        "    result = None\n"
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
def _quiet() -> Iterator[None]:
    """No garbage collection inside a block."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
