"""One call of a kernel on a GPU: its arguments, what must come out, and how long it takes beside another."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.search import StageFailure


@dataclass(frozen=True)
class GpuCase:
    """What a kernel is called with, and what must come out.

    `arguments` are the kernel's, in order, without its constants; `outputs` are those that it writes, and
    `expected` what must be in them, as precise as can be had (float64). An element is right where it is
    within `atol + rtol · |expected|`; the defaults suit results that are rounded to bfloat16 once. `grid` is
    the number of programs (Triton) or tiles (cuTile) in each of three dimensions.
    """

    arguments: tuple[Any, ...]
    outputs: tuple[Any, ...]
    expected: tuple[Any, ...]
    grid: tuple[int, int, int]
    rtol: float = 2.0**-7
    atol: float = 2.0**-9

    def check(self, launch: Callable[[], None]) -> None:
        """Run the kernel once into outputs full of NaN. Raises StageFailure of the kind `wrong`."""
        import torch

        for output in self.outputs:
            output.fill_(float("nan"))
        launch()
        torch.cuda.synchronize()
        for number, (output, expected) in enumerate(zip(self.outputs, self.expected, strict=True)):
            off = (output.double() - expected.double()).abs()
            wrong = ~(off <= self.atol + self.rtol * expected.double().abs())
            count = int(wrong.sum())
            if count:
                at = tuple(int(one) for one in wrong.nonzero()[0])
                raise StageFailure(
                    f"output {number}: {count} of {wrong.numel()} elements are wrong, first at {at}: "
                    f"{float(output[at]):.6g} instead of {float(expected[at]):.6g}",
                    kind="wrong",
                    lasts=True,
                )


@dataclass(frozen=True)
class Paired:
    """Seconds of one call of each of two kernels, by block; `ratios` are baseline over candidate."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """How much faster the candidate was, block by block."""
        return tuple(one / other for one, other in zip(self.baseline, self.candidate, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)


def paired(
    baseline: Callable[[], None],
    candidate: Callable[[], None],
    *,
    blocks: int = 20,
    block_s: float = 0.004,
    clock: Callable[[Callable[[], None], int], float] | None = None,
) -> Paired:
    """Time two kernels in turn, block against block, each first as often as the other.

    `clock(launch, calls)` gives the seconds of so many calls; by CUDA events unless named.
    """
    clock = clock or event_seconds
    calls = {}
    for launch in (baseline, candidate):
        clock(launch, 3)
        calls[launch] = max(1, round(block_s / max(clock(launch, 3) / 3, 1e-7)))
    seconds: Mapping[Any, list[float]] = {baseline: [], candidate: []}
    for block in range(blocks):
        order = (baseline, candidate) if block % 2 == 0 else (candidate, baseline)
        for launch in order:
            seconds[launch].append(clock(launch, calls[launch]) / calls[launch])
    return Paired(tuple(seconds[baseline]), tuple(seconds[candidate]))


def event_seconds(launch: Callable[[], None], calls: int) -> float:
    """Seconds between two CUDA events on the current stream, with `calls` launches between them."""
    import torch

    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        launch()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3
