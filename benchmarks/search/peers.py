"""The peers that searches are compared with: Kernel Tuner in simulation mode, and Optuna."""

from __future__ import annotations

import functools
import gzip
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from kernelwright import settings
from kernelwright.search import Failure
from kernelwright.search import Recorded
from kernelwright.search import recorded_spaces

KERNEL_TUNER = "1.5.0"
#: Optuna knows no constraint on what it proposes: draws outside the space, or again, cost it nothing.
MOST_DRAWS = 10


def run(
    name: str, recorded: Recorded, seeds: Collection[int], evaluations: int
) -> list[list[float | Failure]]:
    """The outcomes of one run a seed: a configuration counts once, when it is first asked for."""
    peer, _, strategy = name.partition(":")
    if peer == "optuna":
        return [_optuna(strategy, recorded, seed, evaluations) for seed in seeds]
    return _kernel_tuner(strategy, recorded, seeds, evaluations)


def versions(names: Collection[str]) -> dict[str, str]:
    """The versions of the peers among what was compared."""
    found = {}
    if any(name.startswith("kernel_tuner:") for name in names):
        found["kernel_tuner"] = KERNEL_TUNER
    if any(name.startswith("optuna:") for name in names):
        found["optuna"] = importlib.metadata.version("optuna")
    return found


@functools.cache
def environment() -> Path:
    """A Python that has Kernel Tuner: this one, or that of an environment made for it."""
    try:
        if importlib.metadata.version("kernel_tuner") == KERNEL_TUNER:
            return Path(sys.executable)
    except importlib.metadata.PackageNotFoundError:
        pass
    folder = settings.cache_dir() / "benchmarks" / f"kernel_tuner-{KERNEL_TUNER}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", f"kernel-tuner=={KERNEL_TUNER}"],
            check=True,
        )
        ready.touch()
    return python


def _kernel_tuner(
    strategy: str, recorded: Recorded, seeds: Collection[int], evaluations: int
) -> list[list[float | Failure]]:
    (source,) = [path for path in recorded_spaces() if path.name.split(".")[0] == recorded.name]
    with tempfile.TemporaryDirectory() as folder:
        raw = source.read_bytes()
        document = json.loads(gzip.decompress(raw) if source.suffix == ".gz" else raw)
        names = document["tune_params_keys"]
        for record in document["cache"].values():
            outcome = recorded.outcomes[tuple(record[name] for name in names)]
            if isinstance(outcome, Failure) and not isinstance(record["time"], str):
                record["time"] = "RuntimeFailedConfig"
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(document))
        script = Path(__file__).with_name("kernel_tuner_runs.py")
        command = [str(environment()), str(script), str(path), strategy, str(evaluations), *map(str, seeds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [
        [one if isinstance(one, float) else Failure("crashed", one) for one in json.loads(line)]
        for line in done.stdout.splitlines()
    ]


def _optuna(sampler: str, recorded: Recorded, seed: int, evaluations: int) -> list[float | Failure]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
    study = optuna.create_study(sampler=samplers[sampler](seed=seed))
    listed = {name: parameter.values() for name, parameter in recorded.space.parameters.items()}
    seen: dict[tuple[object, ...], float | Failure] = {}
    for _ in range(MOST_DRAWS * evaluations):
        if len(seen) == evaluations:
            break
        draw = study.ask()
        values = tuple(draw.suggest_categorical(name, choices) for name, choices in listed.items())
        outcome = recorded.outcomes.get(values)
        if outcome is None or isinstance(outcome, Failure):
            study.tell(draw, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(draw, outcome)
        if outcome is not None:
            seen.setdefault(values, outcome)
    return list(seen.values())
