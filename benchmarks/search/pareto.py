"""Compare searches for two objectives, time and compile time, on recorded tuning spaces.

Each run's hypervolume is measured after 25, 50, 100 and 200 evaluations, as a share of what the whole space
holds. Both objectives are logarithms, scaled so that the best recorded value is 0 and the worst 1; the
reference point is (1, 1). The difference to the first contestant has a bootstrap interval over spaces and
seeds, paired by both.

Contestants: an optimiser of this project, as in `nsga2` or `nsga2:pool_size=32`, and `optuna:nsga2` or
`optuna:nsga2:16` (its population; 50 by default): Optuna on its own, each parameter categorical, where
suggestions that violate a constraint or repeat one cost nothing and are told as failed, or with their known
scores.

    python benchmarks/search/pareto.py nsga2 optuna:nsga2 optuna:nsga2:16 random --seeds 20 --json OUT.json
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.search import Failure
from kernelwright.search import hypervolume
from kernelwright.search import load_recorded
from kernelwright.search import make_optimizer
from kernelwright.search import Recorded
from kernelwright.search import recorded_spaces

MARKS = (25, 50, 100, 200)
RESAMPLES = 10_000
#: Suggestions that cost nothing; after so many, an Optuna run has no more to say.
FREE = 20_000

Pair = tuple[float, float]


class Volume:
    """Hypervolume on one recorded space, as a share of all that it holds."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.pairs: dict[tuple[Any, ...], Pair | Failure] = {}
        for values, outcome in recorded.outcomes.items():
            compile_time = recorded.fields[values].get("compile_time")
            if isinstance(outcome, Failure) or not isinstance(compile_time, int | float) or compile_time <= 0:
                self.pairs[values] = Failure("no_pair", "a time or a compile time is missing")
            else:
                self.pairs[values] = (float(np.log(outcome)), float(np.log(compile_time)))
        known = np.array([one for one in self.pairs.values() if not isinstance(one, Failure)])
        self.low, self.high = known.min(0), known.max(0)
        self.whole = 1.0
        self.whole = self.share([(float(a), float(b)) for a, b in known])

    def share(self, pairs: list[Pair]) -> float:
        scaled = [tuple((np.array(one) - self.low) / (self.high - self.low)) for one in pairs]
        return hypervolume(scaled, (1.0, 1.0)) / self.whole


def ours(name: str, volume: Volume, seed: int) -> Iterator[Pair | Failure]:
    """Outcomes of an optimiser of this project."""
    name, _, words = name.partition(":")
    options = dict(one.split("=", 1) for one in words.split(",")) if words else {}
    made = {key: ast.literal_eval(value) for key, value in options.items()}
    optimizer = make_optimizer(name, volume.recorded.space, seed=seed, objectives=2, **made)
    while proposals := optimizer.ask(1):
        configuration = proposals[0].configuration
        outcome = volume.pairs[volume.recorded.values(configuration)]
        optimizer.tell(configuration, outcome)
        yield outcome


def optunas(name: str, volume: Volume, seed: int) -> Iterator[Pair | Failure]:
    """Outcomes of Optuna on its own."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    _, _, population = name.partition(":")
    size = int(population) if population else 50
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=size)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
    parameters = {key: one.values() for key, one in volume.recorded.space.parameters.items()}
    seen: set[tuple[Any, ...]] = set()
    for _ in range(FREE):
        trial = study.ask()
        values = tuple(trial.suggest_categorical(key, list(one or ())) for key, one in parameters.items())
        outcome = volume.pairs.get(values)
        if outcome is None or isinstance(outcome, Failure):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, list(outcome))
        if outcome is not None and values not in seen:
            seen.add(values)
            yield outcome


@functools.cache
def loaded(path: Path) -> Volume:
    """A recorded space, read once a process."""
    return Volume(load_recorded(path))


def run(job: tuple[Path, str, int]) -> list[float]:
    """For one contestant on one space with one seed, the share of the hypervolume at each mark."""
    path, name, seed = job
    volume = loaded(path)
    kind, _, rest = name.partition(":")
    outcomes = optunas(rest, volume, seed) if kind == "optuna" and rest else ours(name, volume, seed)
    pairs: list[Pair] = []
    marked = []
    for count, outcome in enumerate(outcomes, 1):
        if not isinstance(outcome, Failure):
            pairs.append(outcome)
        if count in MARKS:
            marked.append(volume.share(pairs))
        if count == MARKS[-1]:
            break
    return marked + [volume.share(pairs)] * (len(MARKS) - len(marked))


def interval(differences: np.ndarray) -> list[tuple[float, float, float]]:
    """Mean and 95% interval at each mark, of spaces × seeds × marks: spaces, then seeds in them, redrawn."""
    rng = np.random.default_rng(0)
    spaces, seeds, _ = differences.shape
    means = []
    for _ in range(RESAMPLES):
        chosen = rng.integers(spaces, size=spaces)
        drawn = rng.integers(seeds, size=(spaces, seeds))
        means.append(differences[chosen[:, None], drawn].mean((0, 1)))
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    middle = differences.mean((0, 1))
    return [(float(a), float(b), float(c)) for a, b, c in zip(middle, low, high, strict=True)]


def main() -> None:
    """Run the contestants and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "contestants", nargs="*", default=["nsga2", "optuna:nsga2", "optuna:nsga2:16", "random"]
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--spaces", default="", help="only those whose name contains one of these, by comma")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    wanted = [one for one in arguments.spaces.split(",") if one]
    paths = [path for path in recorded_spaces() if not wanted or any(one in path.name for one in wanted)]
    results: dict[str, np.ndarray] = {}
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        for name in arguments.contestants:
            start = time.perf_counter()
            jobs = [(path, name, seed) for path in paths for seed in range(arguments.seeds)]
            marks = np.array(pool.map(run, jobs, chunksize=1))
            results[name] = marks.reshape(len(paths), arguments.seeds, len(MARKS))
            shares = " ".join(f"{one:.3f}" for one in results[name].mean((0, 1)))
            print(f"{name:20s} @{'/'.join(map(str, MARKS))}: {shares} ({time.perf_counter() - start:.0f} s)")
            print("    by space @200: " + " ".join(f"{one:.2f}" for one in results[name][:, :, -1].mean(1)))
    first = arguments.contestants[0]
    report: dict[str, Any] = {}
    for name in arguments.contestants[1:]:
        differences = results[first] - results[name]
        rows = interval(differences)
        report[name] = rows
        words = " ".join(f"{a:+.3f} [{b:+.3f}, {c:+.3f}]" for a, b, c in rows)
        ahead = int((differences[:, :, -1].mean(1) > 0).sum())
        print(f"{first} − {name}: {words}; ahead on {ahead} of {len(paths)} spaces at {MARKS[-1]}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps(
                {
                    "spaces": [path.name for path in paths],
                    "marks": MARKS,
                    "seeds": arguments.seeds,
                    "shares": {name: one.tolist() for name, one in results.items()},
                    f"{first} minus": report,
                }
            )
        )


if __name__ == "__main__":
    main()
