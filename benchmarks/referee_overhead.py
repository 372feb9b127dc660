"""What judging one more configuration costs beyond its build and its timed work.

    python benchmarks/referee_overhead.py [--entrants 20] [--json FILE]

A search keeps one judge, and judges one entrant after the other against one baseline: each gets a process
of its own, whose start, loading, filling of buffers and end are the fixed cost, with all that is concluded
from the times. Timed work is what grows with the number of blocks: clocked batches of both, making their sets
ready, waiting until nothing runs, looks at outputs. What is done within a block for the next entrant
(`ahead`) is fixed cost all the same. Each is printed, and the load: it wants an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright import build
from kernelwright import machine
from kernelwright.kernels.cpu import native_kernels
from kernelwright.ops import parse_dtype
from kernelwright.ops import RmsNormSpec
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._course import Course
from kernelwright.referee._native_pool import Pool
from kernelwright.referee._native_witness import Witness
from kernelwright.referee._race_data import RaceData

_LIMIT_MS = 30.0


@contextlib.contextmanager
def spent(owner: Any, name: str, into: dict[str, float], key: Callable[..., str]) -> Iterator[None]:
    """Add the seconds spent in a method to `into`, under what `key` makes of its arguments."""
    method = getattr(owner, name)

    def timed(self: Any, *args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(self, *args, **options)
        finally:
            into[key(*args)] += time.perf_counter() - began

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entrants", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs=2, default=(32, 4096))
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    kernel = native_kernels()["rms_norm"]
    spec = RmsNormSpec()
    workload = spec.workload(*asked.sizes, dtype=parse_dtype(asked.dtype))
    library = build.build(kernel.request({}, kernel.tier())).library
    baseline = NativeEntrant("baseline", library, kernel.symbol)
    rows = []
    with NativeJudge(seed=1) as judge:
        for number in range(asked.entrants + 1):
            entrant = NativeEntrant(f"#{number}", library, kernel.symbol)
            parts: dict[str, float] = defaultdict(float)
            with (
                spent(MeasuringChild, "request", parts, lambda message, *_: str(message["op"])),
                spent(Witness, "judge", parts, lambda *_: "judging"),
                spent(RaceData, "fault", parts, lambda *_: "oracle"),
                spent(MeasuringChild, "start", parts, lambda *_: "start"),
                spent(MeasuringChild, "stop", parts, lambda *_: "stop"),
                spent(Course, "block", parts, lambda *_: "blocks"),
                spent(Pool, "get_ready", parts, lambda *_: "ahead"),
            ):
                began = time.perf_counter()
                result = judge.race(
                    spec,
                    workload,
                    baseline,
                    [entrant],
                    describe=kernel.describe,
                    mode=Mode.COLD,
                    budget_s=0.15,
                    screen=True,
                )
                whole = time.perf_counter() - began
            contest = result.contests.get(entrant.name)
            blocks = contest.conditions["rounds"] if contest is not None else 1
            fixed = whole - parts["blocks"] + parts["ahead"]
            rows.append({**parts, "whole": whole, "fixed": fixed, "number": blocks})
    later = rows[1:]  # the first one starts the template, draws the data and opens the baseline
    names = sorted({name for row in later for name in row})
    median = {name: float(np.median([row.get(name, 0.0) for row in later])) * 1e3 for name in names}
    load = os.getloadavg()
    print(f"one more configuration, {workload.name}, cold, {len(later)} of them; load {load[0]:.2f}")
    for name in (
        "whole",
        "blocks",
        "batch",
        "prepare",
        "judging",
        "oracle",
        "start",
        "load",
        "open",
        "stop",
        "ahead",
    ):
        print(f"  {name:10s} {median.get(name, 0.0):8.2f} ms")
    print(f"  {median['number'] / 1e3:.0f} blocks")
    print(f"fixed cost: {median['fixed']:.1f} ms (limit {_LIMIT_MS:g} ms)")
    if asked.json is not None:
        here = machine.fingerprint()
        asked.json.write_text(
            json.dumps({"machine": here, "load": load, "ms": median, "rows": later}, indent=1)
        )


if __name__ == "__main__":
    main()
