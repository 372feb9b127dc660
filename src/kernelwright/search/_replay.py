"""Recorded tuning spaces: replayed as an objective, and the score of a search on one."""

from __future__ import annotations

import functools
import gzip
import json
import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright import settings
from kernelwright.errors import FileFormatError
from kernelwright.errors import SpaceError
from kernelwright.search._evaluation import INVALID_SCORE
from kernelwright.search._optimizer import Failure
from kernelwright.space import Choice
from kernelwright.space import Configuration
from kernelwright.space import Space
from kernelwright.space import Value

#: No search is scored on more evaluations than this.
EVALUATIONS = 220
_SUFFIXES = (".json.gz", ".json")


@dataclass(frozen=True)
class Recorded:
    """A space of which every configuration was measured once, and what came of it.

    `outcomes` holds, by the values in the order of the parameters, the mean time in milliseconds or the
    Failure; `fields` the whole record of each, as it stands in the file.
    """

    name: str
    space: Space
    outcomes: Mapping[tuple[Value, ...], float | Failure]
    fields: Mapping[tuple[Value, ...], Mapping[str, Any]]

    def values(self, configuration: Mapping[str, Value]) -> tuple[Value, ...]:
        """The key of `outcomes`. Raises SpaceError for a configuration that was not recorded."""
        found = tuple(configuration.get(name) for name in self.space.parameters)
        if found not in self.outcomes:
            raise SpaceError(f"{dict(configuration)} is not among what was recorded of {self.name}")
        return found

    def outcome(self, configuration: Mapping[str, Value]) -> float | Failure:
        """The time in milliseconds, or why there is none."""
        return self.outcomes[self.values(configuration)]

    @functools.cached_property
    def times(self) -> NDArray[np.float64]:
        """The times of all that did not fail, ascending, milliseconds."""
        return np.sort([one for one in self.outcomes.values() if not isinstance(one, Failure)])

    @property
    def optimum(self) -> float:
        """The shortest time, milliseconds."""
        return float(self.times[0])

    @property
    def worst(self) -> float:
        """The longest time, milliseconds: what a failure counts as in the score."""
        return float(self.times[-1])

    @functools.cached_property
    def random_best(self) -> NDArray[np.float64]:
        """The expected best of `t` configurations drawn at random without replacement, `t` from 0, exactly.

        Of `N` configurations in order of time, the best of `t` is beyond the `i`-th with probability
        C(N − i, t) / C(N, t); a failure counts as the longest time.
        """
        times = np.concatenate([self.times, np.full(len(self.outcomes) - len(self.times), self.worst)])
        count = len(times)
        beyond = np.ones(count)
        left = count - 1.0 - np.arange(count)
        expected = [self.worst]
        for drawn in range(min(EVALUATIONS, count)):
            beyond = beyond * np.maximum(left - drawn, 0) / (count - drawn)
            expected.append(float(times[0] + beyond[:-1] @ np.diff(times)))
        return np.array(expected)

    @functools.cached_property
    def cutoff(self) -> int:
        """How many evaluations are scored.

        The first at which random search is expected to be 95% of the way from the median to the optimum, at
        most `EVALUATIONS`.
        """
        median = float(np.median(self.times))
        reached = np.flatnonzero(self.random_best <= median - 0.95 * (median - self.optimum))
        return int(reached[0]) if len(reached) else len(self.random_best) - 1

    def best_so_far(self, outcomes: Sequence[float | Failure]) -> NDArray[np.float64]:
        """The best time after each evaluation; before the first success, the longest of the space."""
        times = [self.worst if isinstance(one, Failure) else one for one in outcomes]
        return np.minimum.accumulate(np.array(times or [self.worst]))

    def score(self, outcomes: Sequence[float | Failure]) -> float:
        """How far a search was between random search (0) and knowing the optimum (1), on average.

        `outcomes` are those of its evaluations, in order. The average is over evaluations from 2% to 100% of
        the cutoff; a search that stopped keeps its best.
        """
        best = self.best_so_far(outcomes)
        evaluations = np.arange(max(1, math.ceil(0.02 * self.cutoff)), self.cutoff + 1)
        found = best[np.minimum(evaluations, len(best)) - 1]
        chance = self.random_best[evaluations]
        return float(np.mean((chance - found) / (chance - self.optimum)))


class ReplayObjective:
    """A recorded space as the objective of a search: the recorded time instead of a measurement.

    Args:
        recorded: the space.
        fields: what to return, `("time",)` or several fields of a record, such as `("time", "compile_time")`.

    A configuration that failed when it was recorded returns INVALID_SCORE.
    """

    def __init__(self, recorded: Recorded, fields: Sequence[str] = ("time",)) -> None:
        self.recorded = recorded
        self.fields = tuple(fields)

    def __call__(self, configuration: Mapping[str, Value]) -> float | tuple[float, ...]:
        outcome = self.outcome(configuration)
        if isinstance(outcome, Failure):
            return INVALID_SCORE if len(self.fields) == 1 else (INVALID_SCORE,) * len(self.fields)
        return outcome

    def outcome(self, configuration: Mapping[str, Value]) -> float | tuple[float, ...] | Failure:
        """As a call, with the Failure as it was recorded."""
        values = self.recorded.values(configuration)
        outcome = self.recorded.outcomes[values]
        if isinstance(outcome, Failure):
            return outcome
        record = self.recorded.fields[values]
        scores = tuple(float(record[field]) for field in self.fields)
        return scores if len(scores) > 1 else scores[0]


def recorded_spaces(folder: Path | None = None) -> list[Path]:
    """The recorded spaces in a folder (`KERNELWRIGHT_SPACES` unless given), by name."""
    folder = settings.spaces_dir() if folder is None else folder
    found = [path for suffix in _SUFFIXES for path in folder.glob(f"*{suffix}")]
    return sorted(path for path in found if not path.name.endswith((".T1.json", ".T1.json.gz")))


def load_recorded(path: Path) -> Recorded:
    """Read one recorded space: a Kernel Tuner cache, plain or gzipped JSON.

    `tune_params_keys` and `tune_params` give the parameters, `cache` the record of each configuration. Where
    the recorded configurations are not all combinations, a constraint allows only those. A record whose time
    is a string, such as CompilationFailedConfig, is a failure: `build_failed` where the word says that
    compilation failed, else `crashed`.

    Raises FileNotFoundError, and FileFormatError when it is no such file.
    """
    try:
        raw = path.read_bytes()
        document = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        names = [str(name) for name in document["tune_params_keys"]]
        listed = {name: tuple(document["tune_params"][name]) for name in names}
        fields = {tuple(record[name] for name in names): record for record in document["cache"].values()}
        outcomes = {values: _outcome(record["time"]) for values, record in fields.items()}
    except (KeyError, TypeError, ValueError, AttributeError, EOFError, gzip.BadGzipFile) as error:
        raise FileFormatError(path, f"it is not a recorded tuning space ({error!r})") from error
    if not outcomes or all(isinstance(one, Failure) for one in outcomes.values()):
        raise FileFormatError(path, "no configuration of this recorded space has a time")

    def recorded(configuration: Configuration) -> bool:
        return tuple(configuration[name] for name in names) in outcomes

    complete = len(outcomes) == math.prod(len(values) for values in listed.values())
    space = Space(
        {name: Choice(values) for name, values in listed.items()},
        [] if complete else [recorded],
    )
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return Recorded(name, space, outcomes, fields)


def _outcome(time: object) -> float | Failure:
    if isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time):
        return float(time)
    return Failure("build_failed" if "compil" in str(time).lower() else "crashed", str(time))
