"""How often the fastest of many configurations is found from few noisy repeats, on recorded tuning spaces.

Each run draws 200 configurations that ran, lets a method measure them by handing out their recorded repeats,
and asks whether what it picked is within 0.5% of the true best: the one with the lowest median of all its
repeats. Repeats are handed out in two orders: as they were recorded, where the first ones of each
configuration are biased by clocks that ramp up; and shuffled, as if each measurement were taken at a moment
of its own. A method that wants more repeats than there are gets old ones again.

Beside the selection of the referee: 1, 3 and 10 fixed repeats of everything, and halving (all once, the best
32 once more, 16 twice more, 8 four times more: 1.48 repeats a configuration).

    python benchmarks/referee_selection.py [--runs 300] [--data FOLDER] [--choose] [--json FILE]

FOLDER holds spaces in the format of the benchmark hub (DOI 10.5281/zenodo.15364124), `*.json.gz`; left out,
it is what KERNELWRIGHT_SPACES names, or `../shared/data/tuning_spaces` beside the project. `--choose`
also chooses the plan on one half of the spaces and reports it on the other half, both ways round.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import platform
import statistics
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kernelwright
from kernelwright import settings
from kernelwright.referee._selection import Selection
from kernelwright.referee._selection import SelectionPlan

ORDERS = ("recorded", "shuffled")
CONFIGURATIONS = 200
#: A pick is good when it is at most this much slower than the true best.
GOOD = 0.005
HALVING = ((32, 1), (16, 2), (8, 4))
GRID: Mapping[str, Sequence[Any]] = {
    "look": (0.1, 0.15, 0.25),
    "clear": (2.5, 4.0),
    "most": (8, 24),
    "confirmations": (0, 6),
}

Times = NDArray[np.float64]
#: Repeats of the drawn configurations, and what draws further ones: the pick, and the measurements it took.
Method = Callable[[Times, np.random.Generator], tuple[int, int]]


def load_spaces(folder: Path) -> dict[str, Times]:
    """Repeats of all configurations that ran, by space: configurations × repeats, in milliseconds."""
    spaces = {}
    for path in sorted(folder.glob("*.json.gz")):
        with gzip.open(path) as stream:
            entries = json.load(stream)["cache"].values()
        ran = [one["times"] for one in entries if not isinstance(one["time"], str)]
        if ran:
            spaces[path.name.removesuffix(".json.gz")] = np.array(ran, dtype=np.float64)
    return spaces


def fixed(repeats: int) -> Method:
    """The lowest median of so many repeats of each."""

    def method(times: Times, draw: np.random.Generator) -> tuple[int, int]:
        return int(np.argmin(np.median(times[:, :repeats], axis=1))), len(times) * repeats

    return method


def halving(times: Times, draw: np.random.Generator) -> tuple[int, int]:
    """Fewer and fewer, measured more and more often, by the median of what was seen."""
    used = np.ones(len(times), dtype=int)
    left = np.arange(len(times))
    for keep, more in HALVING:
        left = left[np.argsort([np.median(times[index, : used[index]]) for index in left])[:keep]]
        used[left] += more
    medians = [np.median(times[index, : used[index]]) for index in left]
    return int(left[np.argmin(medians)]), int(used.sum())


def selection(plan: SelectionPlan | None = None) -> Method:
    """The referee's."""

    def method(times: Times, draw: np.random.Generator) -> tuple[int, int]:
        chooser = Selection(range(len(times)), plan=plan)
        recorded = times.shape[1]
        while wanted := chooser.ask():
            for index in wanted:
                repeat = chooser.repeats(index)
                repeat = repeat if repeat < recorded else int(draw.integers(recorded))
                chooser.tell(index, float(times[index, repeat]))
        assert chooser.best is not None
        return chooser.best, chooser.measurements

    return method


METHODS: Mapping[str, Method] = {
    "1 repeat": fixed(1),
    "3 repeats": fixed(3),
    "10 repeats": fixed(10),
    "halving": halving,
    "selection": selection(),
}


def replay(times: Times, methods: Mapping[str, Method], runs: int, order: str, seed: int) -> dict[str, Any]:
    """By method: the share of good picks, of exact ones, the mean loss, and repeats a configuration."""
    draw = np.random.default_rng(seed)
    count = min(CONFIGURATIONS, len(times))
    losses: dict[str, list[float]] = {name: [] for name in methods}
    used: dict[str, list[int]] = {name: [] for name in methods}
    for _ in range(runs):
        drawn = times[draw.choice(len(times), count, replace=False)]
        truth = np.median(drawn, axis=1)
        served = draw.permuted(drawn, axis=1) if order == "shuffled" else drawn
        for name, method in methods.items():
            pick, measurements = method(served, draw)
            losses[name].append(float(truth[pick] / truth.min() - 1.0))
            used[name].append(measurements)
    return {
        name: {
            "good": statistics.fmean(loss <= GOOD for loss in losses[name]),
            "exact": statistics.fmean(loss == 0.0 for loss in losses[name]),
            "mean_loss": statistics.fmean(losses[name]),
            "repeats": statistics.fmean(used[name]) / count,
        }
        for name in methods
    }


def table(
    spaces: Mapping[str, Times], methods: Mapping[str, Method], runs: int, order: str
) -> dict[str, Any]:
    """A row a space, and the pooled one."""
    rows = {
        name: replay(times, methods, runs, order, seed) for seed, (name, times) in enumerate(spaces.items())
    }
    rows["pooled"] = {
        name: {
            value: statistics.fmean(row[name][value] for row in rows.values())
            for value in ("good", "exact", "mean_loss", "repeats")
        }
        for name in methods
    }
    return rows


def choose(spaces: Mapping[str, Times], runs: int) -> list[dict[str, Any]]:
    """The plan that is best on one half of the spaces, and what it does on the other; both ways round."""
    plans = [
        SelectionPlan(**dict(zip(GRID, values, strict=True))) for values in itertools.product(*GRID.values())
    ]
    methods = {str(number): selection(plan) for number, plan in enumerate(plans)}
    found = {
        name: _both_orders(times, methods, runs, seed + 1000)
        for seed, (name, times) in enumerate(spaces.items())
    }
    halves = [list(spaces)[0::2], list(spaces)[1::2]]
    results = []
    for chosen_on, told_on in (halves, halves[::-1]):
        best = max(methods, key=lambda number: statistics.fmean(found[name][number] for name in chosen_on))
        results.append(
            {
                "chosen_on": chosen_on,
                "plan": asdict(plans[int(best)]),
                "good_there": statistics.fmean(found[name][best] for name in chosen_on),
                "good_elsewhere": statistics.fmean(found[name][best] for name in told_on),
                "worst_elsewhere": min(found[name][best] for name in told_on),
            }
        )
    return results


def _both_orders(times: Times, methods: Mapping[str, Method], runs: int, seed: int) -> dict[str, float]:
    rows = [replay(times, methods, runs, order, seed) for order in ORDERS]
    return {name: statistics.fmean(row[name]["good"] for row in rows) for name in methods}


def show(rows: Mapping[str, Any], order: str) -> None:
    width = max(map(len, rows))
    print(f"\nrepeats {order}: share of runs whose pick is within {GOOD:.1%} of the true best")
    print(" " * width, *(f"{name:>10}" for name in METHODS), f"{'repeats':>10}", f"{'loss':>8}")
    for space, row in rows.items():
        shares = (f"{row[name]['good']:10.1%}" for name in METHODS)
        own = row["selection"]
        print(f"{space:{width}}", *shares, f"{own['repeats']:10.3f}", f"{own['mean_loss']:8.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--data", type=Path, default=settings.spaces_dir())
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    spaces = load_spaces(asked.data)
    if not spaces:
        parser.error(f"no recorded space (*.json.gz) in {asked.data}; name their folder with --data")
    began = time.monotonic()
    result: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "versions": {
            "python": platform.python_version(),
            "numpy": metadata.version("numpy"),
            "kernelwright": kernelwright.__version__,
        },
        "runs_a_space": asked.runs,
        "configurations": CONFIGURATIONS,
        "within": GOOD,
        "plan": asdict(SelectionPlan()),
        "spaces": {name: list(times.shape) for name, times in spaces.items()},
        "orders": {},
    }
    for order in ORDERS:
        result["orders"][order] = rows = table(spaces, METHODS, asked.runs, order)
        show(rows, order)
    if asked.choose:
        result["chosen"] = choose(spaces, max(asked.runs // 5, 20))
        for one in result["chosen"]:
            print(f"\nchosen on {', '.join(one['chosen_on'])}: {one['plan']}")
            print(f"there {one['good_there']:.1%}, on the others {one['good_elsewhere']:.1%}")
    result["seconds"] = round(time.monotonic() - began, 1)
    print(f"\n{result['seconds']:.0f} s")
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
