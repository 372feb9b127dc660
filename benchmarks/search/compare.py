"""Compare searches on recorded tuning spaces, where nothing has to be measured again.

Every search gets the same spaces, the same number of evaluations and as many seeds, and is scored as
`kernelwright.search.Recorded.score` says: 0 is the exact expectation of random search without replacement, 1
the optimum. Three kinds of names: optimisers of this project (`auto`, `annealing`, …);
`auto:OPTION=VALUE,…`, the default with options changed, for ablations; and the peers,
`kernel_tuner:STRATEGY` and `optuna:tpe`.
Kernel Tuner runs in an environment of its own, made by this script, in a fresh process for each run:
several runs in one process with one search space pass on what earlier ones found through cached neighbours.

    python benchmarks/search/compare.py auto annealing kernel_tuner:genetic_algorithm optuna:tpe \\
        --seeds 20 --json benchmarks/results/DATE-MACHINE-search-peers.json

`--failing 0.5` turns that share of the configurations into failures, other ones for each seed. `--jobs` does
several runs at a time, low seeds first, and `--max-time` begins none after so many seconds, so that what was
cut short has about as many seeds on every space. The other searches are compared with the first (of what is
joined, where there is any): the difference on each space, and over all.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.metadata
import json
import math
import multiprocessing
import platform
import statistics
import subprocess
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kernelwright
import peers
from kernelwright import machine
from kernelwright import settings
from kernelwright.search import Failure
from kernelwright.search import load_recorded
from kernelwright.search import make_optimizer
from kernelwright.search import Recorded
from kernelwright.search import recorded_spaces

EVALUATIONS = 220
#: Where the share of the optimum is reported.
MARKS = (25, 50, 100, 200)
#: A run is there when its best time is within this of the optimum.
CLOSE = 1.01
RESAMPLES = 10_000
#: Seeds of one search of Kernel Tuner, which reads its space anew for each call.
KERNEL_TUNER_SEEDS = 4


@dataclass(frozen=True)
class Job:
    """Some seeds of one search on one space, begun before `until` (time.time()) or not at all."""

    name: str
    path: Path
    seeds: range
    evaluations: int
    share: float
    until: float


@dataclass(frozen=True)
class Done:
    """What came of a job: its runs, or why there are none."""

    name: str
    space: str
    runs: list[dict[str, Any]]
    error: str = ""


@functools.cache
def loaded(path: Path) -> Recorded:
    """A recorded space, read once a process."""
    return load_recorded(path)


def work(job: Job) -> Done:
    """Do one job. A peer that breaks costs its own runs only."""
    if time.time() > job.until:
        return Done(job.name, "", [])
    recorded = loaded(job.path)
    try:
        found = runs(job.name, recorded, job.seeds, job.evaluations, job.share)
    except subprocess.CalledProcessError as error:
        return Done(job.name, recorded.name, [], f"seeds {list(job.seeds)}: {error.stderr[-2000:]}")
    return Done(job.name, recorded.name, found)


def every(jobs: list[Job], processes: int) -> Iterator[Done]:
    """All jobs, several at a time."""
    if processes == 1:
        yield from map(work, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, jobs, chunksize=1)


def ours(
    name: str, recorded: Recorded, seed: int, evaluations: int
) -> tuple[list[float | Failure], list[float]]:
    """Outcomes of one run in order, and what each ask and tell took together, seconds."""
    name, _, words = name.partition(":")
    options = dict(one.split("=", 1) for one in words.split(",")) if words else {}
    optimizer = make_optimizer(
        name, recorded.space, seed=seed, **{key: ast.literal_eval(value) for key, value in options.items()}
    )
    outcomes: list[float | Failure] = []
    seconds = []
    while len(outcomes) < evaluations:
        start = time.perf_counter()
        proposals = optimizer.ask(1)
        if not proposals:
            break
        outcome = recorded.outcome(proposals[0].configuration)
        optimizer.tell(proposals[0].configuration, outcome)
        seconds.append(time.perf_counter() - start)
        outcomes.append(outcome)
    return outcomes, seconds


def failing(recorded: Recorded, share: float, seed: int) -> Recorded:
    """The space with a share of its configurations turned into failures at random."""
    rng = np.random.default_rng([seed, 2026])
    fails = rng.random(len(recorded.outcomes)) < share
    outcomes = {
        values: Failure("crashed", "turned into a failure") if fail else outcome
        for (values, outcome), fail in zip(recorded.outcomes.items(), fails, strict=True)
    }
    return Recorded(recorded.name, recorded.space, outcomes, recorded.fields)


def runs(name: str, recorded: Recorded, seeds: range, evaluations: int, share: float) -> list[dict[str, Any]]:
    """One run a seed, each summed up."""
    found = []
    spaces = [failing(recorded, share, seed) if share else recorded for seed in seeds]
    if name.startswith(("kernel_tuner:", "optuna:")):
        if share:
            raise SystemExit("failures are not made for peers")
        found = [(outcomes, [0.0]) for outcomes in peers.run(name, recorded, seeds, evaluations)]
    else:
        found = [ours(name, one, seed, evaluations) for one, seed in zip(spaces, seeds, strict=True)]
    return [
        summed(seed, one, outcomes, seconds)
        for seed, one, (outcomes, seconds) in zip(seeds, spaces, found, strict=True)
    ]


def summed(
    seed: int, recorded: Recorded, outcomes: list[float | Failure], seconds: list[float]
) -> dict[str, Any]:
    """What is kept of a run."""
    best = recorded.best_so_far(outcomes)
    return {
        "seed": seed,
        "score": recorded.score(outcomes),
        "of_optimum": [recorded.optimum / float(best[min(mark, len(best)) - 1]) for mark in MARKS],
        "evaluations": len(outcomes),
        "ms": 1e3 * statistics.median(seconds),
    }


def interval(samples: Iterable[float], rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean, and a 95% bootstrap interval of it."""
    values = np.array(list(samples))
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def summary(spaces: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Per space and over all: score with its interval, share of the optimum, runs that got close."""
    rng = np.random.default_rng(0)
    rows = {}
    for name, runs in spaces.items():
        mean, low, high = interval([one["score"] for one in runs], rng)
        rows[name] = {
            "runs": len(runs),
            "score": mean,
            "interval": [low, high],
            "of_optimum": np.mean([one["of_optimum"] for one in runs], 0).tolist(),
            "within_1_percent": float(np.mean([one["of_optimum"][-1] * CLOSE >= 1 for one in runs])),
            "ms": statistics.median([one["ms"] for one in runs]),
        }
    scores = [row["score"] for row in rows.values()]
    mean, low, high = interval(scores, rng)
    # Seeds anew within each space: how sure the mean is for these spaces, not for others.
    seeds = np.mean(
        [
            np.array([one["score"] for one in runs])[rng.integers(0, len(runs), (RESAMPLES, len(runs)))].mean(
                1
            )
            for runs in spaces.values()
        ],
        0,
    )
    total = {
        "score": mean,
        "interval_over_spaces": [low, high],
        "interval_over_seeds": np.quantile(seeds, (0.025, 0.975)).tolist(),
        "worst_space": min(scores),
        "of_optimum": np.mean([row["of_optimum"] for row in rows.values()], 0).tolist(),
        "within_1_percent": float(np.mean([row["within_1_percent"] for row in rows.values()])),
    }
    return {"overall": total, "spaces": rows}


def behind(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """By how much the first search scores higher: on each space, and over all with 95% bootstrap intervals.

    `interval` draws spaces anew, and seeds anew within each; `interval_over_spaces` only spaces.
    """
    rng = np.random.default_rng(0)
    spaces = [space for space in first["runs"] if other["runs"].get(space)]
    means, drawn = [], []
    for space in spaces:
        ours, theirs = (np.array([one["score"] for one in each["runs"][space]]) for each in (first, other))
        means.append(ours.mean() - theirs.mean())
        drawn.append(
            ours[rng.integers(0, len(ours), (RESAMPLES, len(ours)))].mean(1)
            - theirs[rng.integers(0, len(theirs), (RESAMPLES, len(theirs)))].mean(1)
        )
    chosen = rng.integers(0, len(spaces), (RESAMPLES, len(spaces)))
    both = np.take_along_axis(np.array(drawn).T, chosen, 1).mean(1)
    _, low, high = interval(means, rng)
    return {
        "difference": float(np.mean(means)),
        "interval": np.quantile(both, (0.025, 0.975)).tolist(),
        "interval_over_spaces": [low, high],
        "ahead": int(np.sum(np.array(means) > 0)),
        "spaces": dict(zip(spaces, map(float, means), strict=True)),
    }


def show(name: str, result: Mapping[str, Any]) -> None:
    """Print one search."""
    total = result["overall"]
    low, high = total["interval_over_spaces"]
    marks = "/".join(f"{100 * one:.1f}" for one in total["of_optimum"])
    print(f"{name}: {total['score']:+.3f} [{low:+.3f}, {high:+.3f}] over spaces", end=", ")
    print(f"worst {total['worst_space']:+.2f}")
    print(f"    {marks}% of the optimum at {'/'.join(map(str, MARKS))}", end="; ")
    print(f"within 1% in {100 * total['within_1_percent']:.0f}% of runs")
    for space, row in result["spaces"].items():
        low, high = row["interval"]
        print(
            f"    {space:28} {row['score']:+.3f} [{low:+.3f}, {high:+.3f}]  "
            f"{100 * row['of_optimum'][-1]:5.1f}%  {100 * row['within_1_percent']:3.0f}%  {row['ms']:.2f} ms",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "searches", nargs="+", help="auto, auto:beta=1, annealing, kernel_tuner:…, optuna:tpe"
    )
    parser.add_argument("--seeds", type=int, default=20, help="runs a space")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--spaces", default="", help="only those whose name contains one of these, by comma")
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS)
    parser.add_argument("--failing", type=float, default=0.0, help="share of configurations made to fail")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="results of other seeds to add to")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--max-time", type=float, default=math.inf, help="seconds after which none begins")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    paths = recorded_spaces()
    wanted = [one for one in arguments.spaces.split(",") if one]
    paths = [path for path in paths if not wanted or any(one in path.name for one in wanted)]
    if not paths:
        parser.error(
            f"no recorded spaces in {settings.spaces_dir()}; set KERNELWRIGHT_SPACES to their folder"
        )
    names = list(dict.fromkeys(arguments.searches))
    found = joined(arguments.join)
    for name in names:
        found.setdefault(name, {})
    errors = []
    jobs = planned(names, paths, arguments)
    for done in every(jobs, arguments.jobs):
        if done.error:
            errors.append(f"{done.name} on {done.space}: {done.error}")
        if done.runs:
            found[done.name].setdefault(done.space, []).extend(done.runs)
    results: dict[str, Any] = {}
    for name, parts in found.items():
        ordered = {space: sorted(parts[space], key=lambda one: one["seed"]) for space in sorted(parts)}
        if ordered:
            results[name] = {**summary(ordered), "runs": ordered}
            show(name, results[name])
    first, *others = results
    for name in others:
        results[name]["behind_first"] = row = behind(results[first], results[name])
        low, high = row["interval"]
        print(
            f"{first} − {name}: {row['difference']:+.3f} [{low:+.3f}, {high:+.3f}], "
            f"ahead on {row['ahead']} of {len(row['spaces'])} spaces"
        )
    if arguments.json:
        write(arguments.json, arguments, results)
    if errors:
        raise SystemExit("\n".join(errors))


def planned(names: list[str], paths: list[Path], arguments: argparse.Namespace) -> list[Job]:
    """The jobs, low seeds first."""
    until = time.time() + arguments.max_time
    first, last = arguments.first, arguments.first + arguments.seeds
    jobs = []
    for begin in range(first, last, KERNEL_TUNER_SEEDS):
        several = range(begin, min(begin + KERNEL_TUNER_SEEDS, last))
        for name in names:
            parts = (
                [several] if name.startswith("kernel_tuner:") else [range(one, one + 1) for one in several]
            )
            jobs += [
                Job(name, path, part, arguments.evaluations, arguments.failing, until)
                for part in parts
                for path in paths
            ]
    return jobs


def joined(files: Iterable[Path]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The runs of earlier results, by search and space, each seed once."""
    parts: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for file in files:
        for name, result in json.loads(file.read_text())["searches"].items():
            for space, found in result["runs"].items():
                known = parts.setdefault(name, {}).setdefault(space, [])
                seeds = {one["seed"] for one in known}
                known += [one for one in found if one["seed"] not in seeds]
    return parts


def write(path: Path, arguments: argparse.Namespace, results: Mapping[str, Any]) -> None:
    """Keep the results with what they were got with."""
    document = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine.fingerprint(),
        "versions": {
            "python": platform.python_version(),
            "kernelwright": kernelwright.__version__,
            **{name: importlib.metadata.version(name) for name in ("numpy", "scipy")},
            **peers.versions(results),
        },
        "evaluations": arguments.evaluations,
        "failing": arguments.failing,
        "searches": results,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
