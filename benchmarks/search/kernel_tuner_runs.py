"""Kernel Tuner on one recorded space, in its own environment: a JSON list of outcomes for each seed.

Each run has a process of its own, forked before Kernel Tuner has seen the space. It is told which
configurations are in the space, and gets failures as failures.

    python kernel_tuner_runs.py CACHE.json STRATEGY EVALUATIONS SEED...
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
from pathlib import Path

import kernel_tuner
import numpy as np
from constraint import FunctionConstraint


def run(path: Path, strategy: str, evaluations: int, seed: int) -> list[float | str]:
    """Times and failures of the first evaluations, each configuration once, in order."""
    document = json.loads(path.read_text())
    names = document["tune_params_keys"]
    inside = {tuple(record[name] for name in names) for record in document["cache"].values()}
    size = document["problem_size"]
    random.seed(seed)
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            document["kernel_name"],
            "__global__ void kernel() {}",
            tuple(size) if isinstance(size, list) else size,
            [],
            {name: document["tune_params"][name] for name in names},
            restrictions=[FunctionConstraint(lambda *values: values in inside)],
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            simulation_mode=True,
            cache=str(path),
            lang="CUDA",
            objective="time",
            objective_higher_is_better=False,
            quiet=True,
        )
    seen = {}
    for one in results:
        time = one["time"]
        seen.setdefault(
            tuple(one[name] for name in names), float(time) if isinstance(time, int | float) else str(time)
        )
    return list(seen.values())[:evaluations]


def main() -> None:
    path, strategy, evaluations = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for seed in map(int, sys.argv[4:]):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as stream:
                json.dump(run(path, strategy, evaluations, seed), stream)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            outcomes = stream.read()
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit(f"Kernel Tuner ended with {status} at seed {seed}")
        sys.stdout.write(outcomes + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
