"""What a search costs beside its evaluations: the time of ask and tell together.

Three settings: a listed space of about 10^4 points with constraints, 20 parameters with 10^12 points, and the
path without a model. The result of an evaluation is made up and takes no time.

    python benchmarks/bench_search_overhead.py [--evaluations 200] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from kernelwright import machine
from kernelwright import space
from kernelwright.search import make_optimizer
from kernelwright.search import Optimizer
from kernelwright.space import Configuration
from kernelwright.space import Space


def listed() -> Space:
    """10,752 points under three constraints."""
    return Space(
        {
            "tile_m": space.choice([8, 16, 32, 64, 128, 256]),
            "tile_n": space.choice([8, 16, 32, 64, 128, 256]),
            "tile_k": space.choice([8, 16, 32, 64]),
            "warps": space.choice([1, 2, 4, 8]),
            "stages": space.choice([1, 2, 3, 4]),
            "width": space.choice([1, 2, 4, 8]),
            "shared": space.flag(),
        },
        [
            "tile_m * tile_n <= 16384",
            "tile_m * tile_k * stages <= 32768",
            "width <= tile_k // 4",
        ],
    )


def huge() -> Space:
    """20 parameters, 4^20 = 1.1 * 10^12 combinations, ten constraints."""
    parameters = {f"p{place}": space.choice([1, 2, 4, 8]) for place in range(20)}
    return Space(parameters, [f"p{place} * p{place + 1} <= 32" for place in range(0, 20, 2)])


def loss(configuration: Configuration) -> float:
    """A bowl on the logarithms with a few interactions."""
    logs = [math.log2(1 + float(value)) for value in configuration.values()]  # type: ignore[arg-type]
    return sum((one - 2) ** 2 for one in logs) + sum(0.5 * abs(a - b) for a, b in itertools.pairwise(logs))


def measure(make: Callable[[], Optimizer], evaluations: int) -> dict[str, float]:
    """Milliseconds of ask and tell: the median, mean and longest, and what making and the first ask took."""
    start = time.perf_counter()
    optimizer = make()
    proposals = optimizer.ask()
    begun = time.perf_counter() - start
    optimizer.tell(proposals[0].configuration, loss(proposals[0].configuration))
    taken = []
    for _ in range(evaluations - 1):
        start = time.perf_counter()
        (proposal,) = optimizer.ask()
        middle = time.perf_counter()
        value = loss(proposal.configuration)
        resumed = time.perf_counter()
        optimizer.tell(proposal.configuration, value)
        taken.append(1e3 * (time.perf_counter() - resumed + middle - start))
    return {
        "median_ms": statistics.median(taken),
        "mean_ms": statistics.fmean(taken),
        "p95_ms": statistics.quantiles(taken, n=20)[-1],
        "longest_ms": max(taken),
        "begin_ms": 1e3 * begun,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    small, large = listed(), huge()
    cases: dict[str, Callable[[], Optimizer]] = {
        f"model, {small.count()} points with constraints": lambda: make_optimizer("auto", small),
        "model, 20 parameters, 10^12 points": lambda: make_optimizer("auto", large),
        "no model, listed": lambda: make_optimizer("auto", small, seconds=1e-6),
        "no model, 10^12 points": lambda: make_optimizer("auto", large, seconds=1e-6),
    }
    rows = {}
    for name, make in cases.items():
        rows[name] = measure(make, arguments.evaluations)
        told = ", ".join(f"{word} {value:.3f}" for word, value in rows[name].items())
        print(f"{name}: {told}", flush=True)
    if arguments.json:
        document = {
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine.fingerprint(),
            "python": platform.python_version(),
            "evaluations": arguments.evaluations,
            "rows": rows,
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
