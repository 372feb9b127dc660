"""A kernel's time on a GPU: checked against a reference first, then in turns with the baseline.

Candidate and baseline run one after the other in the same process, in an order that changes from round to
round, each after the L2 cache was written full, each timed by two events of its stream. The ratio of a round
compares neighbours in time, so that clocks that rise or fall move both. A round's launches are queued while
the GPU still waits, so that what it waits for its host is in no time. One process measures on a GPU at a
time.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from typing import TypeAlias

from kernelwright import files
from kernelwright import settings
from kernelwright.controls._cuda_driver import GpuFailure
from kernelwright.controls._cuda_driver import LoadedKernel
from kernelwright.controls._cuda_driver import no_gpu
from kernelwright.errors import UsageError
from kernelwright.search import StageFailure
from kernelwright.space import Configuration

#: A size of grid or block, or a function of the kernel's parameters that says it.
Sizes: TypeAlias = Sequence[int] | Callable[[Configuration], Sequence[int]]

_ROUNDS = 21
_FEWEST_ROUNDS, _MOST_ROUNDS = 5, 201
#: Seconds that the launches of one race may take, and an interval that is narrow enough to end it.
_BUDGET_S = 2.0
_NARROW = 1.02
#: What outputs of whole numbers are full of before a kernel writes them.
_POISON = 113
_WARMUPS = 3
_PATIENCE_S = 10.0
#: The GPU waits while launches are queued: so many times as long as that took, but not longer than this; in
#: cycles of a clock that is not faster than this. The queue holds about a thousand of them.
_QUEUE_FACTOR, _QUEUE_MOST_S, _CLOCK_HZ = 3.0, 0.25, 2.0e9
_QUEUED_ROUNDS = 32
_FLUSH_FACTOR = 2
#: Of the order statistics that bound the median with 95% confidence: normal approximation of the sign test.
_Z = 1.96


@dataclass(frozen=True)
class KernelRun:
    """How a kernel is launched, and what is right.

    `inputs(seed)` makes the arguments, on the current CUDA device, in the order of the kernel's parameters:
    tensors, numbers, or ctypes values where neither fits. `expected(*arguments)` says what the arguments at
    `outputs` must be afterwards: a tensor, or a sequence of one for each. An output is right where it differs
    from that by at most `atol + rtol * |expected|`; all other tensors must be as they were. `grid` and
    `block` are sizes, or functions of the kernel's parameters; `shared` is dynamic shared memory, bytes.

    Functions at the top level of a module can be sent to other processes.
    """

    inputs: Callable[[int], Sequence[Any]]
    expected: Callable[..., Any]
    outputs: Sequence[int]
    grid: Sizes
    block: Sizes
    shared: int | Callable[[Configuration], int] = 0
    rtol: float = 1.6e-2
    atol: float = 1e-5
    seeds: Sequence[int] = (0, 1)

    def sizes(self, parameters: Configuration) -> tuple[Sequence[int], Sequence[int], int]:
        """Grid, block and dynamic shared memory under these parameters of the kernel."""
        grid = self.grid(parameters) if callable(self.grid) else self.grid
        block = self.block(parameters) if callable(self.block) else self.block
        return grid, block, self.shared(parameters) if callable(self.shared) else self.shared


@dataclass(frozen=True)
class PairedTime:
    """Seconds of one launch of both, medians; `ratio` is how many times as fast as the baseline it is.

    `low` and `high` bound the median of the rounds' ratios with 95% confidence.
    """

    seconds: float
    baseline_seconds: float
    ratio: float
    low: float
    high: float
    rounds: int


class Bench:
    """Checks and times kernels on the current CUDA device; `baseline` and candidates share its inputs.

    Raises StageFailure of kind `unsupported` where there is no GPU, or one that cubins of `architecture` do
    not run on.
    """

    def __init__(self, run: KernelRun, architecture: str, *, patience_s: float = _PATIENCE_S) -> None:
        torch: Any = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise no_gpu("torch sees none")
        major, minor = torch.cuda.get_device_capability()
        if not runs_on(architecture, major, minor):
            raise no_gpu(f"compiled for {architecture}, and this one is sm_{major}{minor}")
        self._torch: Any = torch
        self._run = run
        self._patience_s = patience_s
        torch.cuda.synchronize()
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._lock = settings.cache_dir() / "locks" / f"measuring-{properties.uuid}.lock"
        size = max(_FLUSH_FACTOR * properties.L2_cache_size, 64 << 20)
        self._flush = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._arguments: dict[int, list[Any]] = {}
        self._expected: dict[int, list[Any]] = {}
        self._pristine: dict[int, list[Any]] = {}

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the GPU among all processes that measure on it; waits for it."""
        with files.lock(self._lock):
            yield

    def check(self, path: Path, kernel: str, parameters: Configuration) -> None:
        """Run the kernel on inputs of each seed. Raises StageFailure of kind `wrong`, `crashed` or `hung`."""
        for seed in self._run.seeds:
            self._prepared(seed)
            with self._lanes((path, kernel, parameters), seed=seed) as [lane]:
                lane()
                self._wait(kernel)
            self._judge(lane, seed)

    def race(
        self,
        baseline: tuple[Path, str, Configuration],
        candidate: tuple[Path, str, Configuration],
        *,
        rounds: int = _ROUNDS,
    ) -> PairedTime:
        """Time both, in turns; more rounds where the interval is wide. Raises StageFailure."""
        seed = self._run.seeds[0]
        with self._lanes(baseline, candidate, seed=seed) as lanes:
            pace = self._warm(lanes, candidate[1])
            each_s = pace.each_s
            rounds = max(_FEWEST_ROUNDS, min(rounds, int(_BUDGET_S / (2 * each_s + 1e-9))))
            times: list[tuple[float, ...]] = []
            while True:
                times += self._rounds(lanes, rounds, len(times), pace)
                found = paired([(base, own) for base, own in times])
                narrow = found.high / found.low < _NARROW
                spent = len(times) * each_s * 2 > _BUDGET_S or len(times) + rounds > _MOST_ROUNDS
                if narrow or spent:
                    self._judge(lanes[-1], seed)  # right once may be wrong the hundredth time
                    return found

    def contest(
        self,
        baseline: tuple[Path, str, Configuration],
        candidate: tuple[Path, str, Configuration],
        *,
        budget_s: float = _BUDGET_S,
    ) -> list[tuple[float, ...]]:
        """Seconds of the baseline, of the baseline loaded once more, and of the candidate, in each round.

        Nothing is looked at before all rounds are over: their number follows from the budget alone. Raises
        StageFailure.
        """
        seed = self._run.seeds[0]
        with self._lanes(baseline, baseline, candidate, seed=seed) as lanes:
            pace = self._warm(lanes, candidate[1])
            rounds = int(budget_s / (len(lanes) * pace.each_s + 1e-9))
            times = self._rounds(lanes, max(_FEWEST_ROUNDS, min(rounds, _MOST_ROUNDS)), 0, pace)
            self._judge(lanes[-1], seed)
            return times

    @contextlib.contextmanager
    def _lanes(self, *entries: tuple[Path, str, Configuration], seed: int) -> Iterator[list[_Lane]]:
        """Kernels, ready to be launched on the inputs of a seed."""
        lanes: list[_Lane] = []
        try:
            with _crashes_are_said(entries[-1][1]):
                lanes += [self._lane(*one, seed) for one in entries]
                yield lanes
        finally:
            for lane in lanes:
                lane.kernel.close()

    def _warm(self, lanes: Sequence[_Lane], kernel: str) -> _Pace:
        """Launch all a few times, so that everything is loaded, and see how long that takes."""
        for _ in range(_WARMUPS - 1):
            for launch in lanes:
                launch()
        self._wait(kernel)
        begun = time.monotonic()
        self._queue(lanes)
        queued = time.monotonic()
        self._wait(kernel)
        return _Pace((time.monotonic() - begun) / len(lanes), queued - begun)

    def _rounds(
        self, lanes: Sequence[_Lane], rounds: int, before: int, pace: _Pace
    ) -> list[tuple[float, ...]]:
        """Seconds of each lane in each round; the order of the lanes goes through all that there are."""
        orders = list(itertools.permutations(range(len(lanes))))
        times: list[tuple[float, ...]] = []
        head_s = _QUEUE_FACTOR * pace.queue_s
        while len(times) < rounds:
            batch = min(rounds - len(times), _QUEUED_ROUNDS)
            self._hold_back(head_s * batch)
            begun = time.monotonic()
            first = before + len(times)
            marks = [
                self._queue(lanes, orders[number % len(orders)]) for number in range(first, first + batch)
            ]
            queued_s = (time.monotonic() - begun) / batch
            self._wait(lanes[-1].kernel.name, more_s=4 * len(lanes) * batch * pace.each_s)
            if queued_s > head_s and head_s * batch < _QUEUE_MOST_S:
                head_s = _QUEUE_FACTOR * queued_s  # the GPU may have waited for its host: once more
                continue
            times += [
                tuple(one[which][0].elapsed_time(one[which][1]) * 1e-3 for which in range(len(lanes)))
                for one in marks
            ]
        return times

    def _queue(self, lanes: Sequence[_Lane], order: Sequence[int] | None = None) -> dict[int, Any]:
        """Start one round; the events before and after each lane."""
        event = self._torch.cuda.Event
        taken: dict[int, Any] = {}
        for which in range(len(lanes)) if order is None else order:
            self._flush.zero_()
            begin, end = event(enable_timing=True), event(enable_timing=True)
            begin.record()
            lanes[which]()
            end.record()
            taken[which] = begin, end
        return taken

    def _hold_back(self, seconds: float) -> None:
        """Keep the GPU waiting for about so long."""
        cycles = int(min(seconds, _QUEUE_MOST_S) * _CLOCK_HZ)
        if cycles:
            self._torch.cuda._sleep(cycles)

    def _lane(self, path: Path, kernel: str, parameters: Configuration, seed: int) -> _Lane:
        grid, block, shared = self._run.sizes(parameters)
        loaded = LoadedKernel(path, kernel, dynamic_shared=shared)
        return _Lane(loaded, grid, block, self._fresh(seed), self._stream())

    def _fresh(self, seed: int) -> list[Any]:
        """The arguments of a seed, with outputs that no other launch writes."""
        arguments, _ = self._prepared(seed)
        return [self._copied(index, one) for index, one in enumerate(arguments)]

    def _prepared(self, seed: int) -> tuple[list[Any], list[Any]]:
        """The arguments of a seed and what the outputs must be; made once."""
        if seed not in self._arguments:
            made = list(self._run.inputs(seed))
            wanted = self._run.expected(*made)
            wanted = [wanted] if hasattr(wanted, "data_ptr") else list(wanted)
            if len(wanted) != len(self._run.outputs):
                count = len(self._run.outputs)
                raise UsageError(f"expected() returns {len(wanted)} tensors for {count} outputs")
            self._arguments[seed], self._expected[seed] = made, wanted
            self._pristine[seed] = [
                one.clone() if hasattr(one, "data_ptr") and index not in self._run.outputs else None
                for index, one in enumerate(made)
            ]
        return self._arguments[seed], self._expected[seed]

    def _copied(self, index: int, one: Any) -> Any:
        """Outputs of their own, full of what no kernel should leave there; inputs are shared."""
        if index not in self._run.outputs:
            return one
        fresh = self._torch.empty_like(one)
        return fresh.fill_(math.nan if one.is_floating_point() else _POISON)

    def _judge(self, lane: _Lane, seed: int) -> None:
        """What the last of a lane's launches left. Raises StageFailure of kind `wrong`."""
        kernel, after = lane.kernel.name, lane.arguments
        before, expected = self._prepared(seed)
        for index, kept in enumerate(self._pristine[seed]):
            if kept is not None and not before[index].equal(kept):
                before[index].copy_(kept)
                raise StageFailure(f"{kernel} changes its argument {index}", kind="wrong", lasts=True)
        for index, wanted in zip(self._run.outputs, expected, strict=True):
            got, right = after[index].double(), wanted.double()
            off = (got - right).abs() - self._run.rtol * right.abs()
            worst = float(off.nan_to_num(nan=math.inf).max())
            if not worst <= self._run.atol:
                said = "not finite" if not math.isfinite(worst) else f"off by {worst:.3g} beyond rtol"
                raise StageFailure(
                    f"{kernel}: argument {index} is {said} on the inputs of seed {seed} (rtol "
                    f"{self._run.rtol:g}, atol {self._run.atol:g})",
                    kind="wrong",
                    lasts=True,
                )

    def _stream(self) -> int:
        return int(self._torch.cuda.current_stream().cuda_stream)

    def _wait(self, kernel: str, *, more_s: float = 0.0) -> None:
        """Wait for all that was started. Raises GpuFailure where it does not end."""
        done = self._torch.cuda.Event()
        deadline = time.monotonic() + self._patience_s + more_s
        done.record()
        while not done.query():
            if time.monotonic() > deadline:
                raise GpuFailure(
                    f"{kernel} has not ended after {self._patience_s + more_s:.3g} s", kind="hung", lost=True
                )
            time.sleep(0.0005)


@contextlib.contextmanager
def _crashes_are_said(kernel: str) -> Iterator[None]:
    """What torch or a framework raises when a kernel crashed or was refused, as a failure.

    A kernel that crashed takes the context along. Where the GPU still answers, the launch itself was refused,
    as it always will be.
    """
    try:
        yield
    except RuntimeError as error:
        said = f"{kernel}: {next(iter(str(error).splitlines()), type(error).__name__)}"
        if type(error).__name__ == "OutOfMemoryError":
            raise GpuFailure(said, kind="out_of_memory") from error
        if _answers():
            raise GpuFailure(said, kind="unsupported", lasts=True) from error
        raise GpuFailure(said, kind="crashed", lost=True) from error


def _answers() -> bool:
    """Whether the current context still works."""
    torch: Any = importlib.import_module("torch")
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class _Pace:
    """Seconds that one launch takes, with what comes before it, and that a round takes to be queued."""

    each_s: float
    queue_s: float


class _Lane:
    """One kernel, ready to be launched again and again."""

    def __init__(
        self, kernel: LoadedKernel, grid: Sequence[int], block: Sequence[int], arguments: Any, stream: int
    ) -> None:
        self.kernel = kernel
        self._grid, self._block, self._stream = grid, block, stream
        self.arguments = arguments
        self._packed = kernel.pack(arguments)

    def __call__(self) -> None:
        self.kernel.launch(self._grid, self._block, self._packed, self._stream)


def paired(times: Sequence[tuple[float, float]]) -> PairedTime:
    """What rounds of (baseline, candidate) seconds say."""
    ratios = sorted(base / own for base, own in times)
    count = len(ratios)
    reach = _Z * math.sqrt(count) / 2
    low = ratios[max(0, math.floor(count / 2 - reach))]
    high = ratios[min(count - 1, math.ceil(count / 2 + reach) - 1)]
    return PairedTime(
        seconds=median(own for _, own in times),
        baseline_seconds=median(base for base, _ in times),
        ratio=median(ratios),
        low=low,
        high=max(high, low),
        rounds=count,
    )


def runs_on(architecture: str, major: int, minor: int) -> bool:
    """Whether a cubin for `architecture` runs on a device of this capability."""
    digits = "".join(letter for letter in architecture if letter.isdigit())
    made_for = int(digits[:-1]), int(digits[-1])
    if architecture.endswith("a"):
        return made_for == (major, minor)
    return made_for[0] == major and made_for[1] <= minor
