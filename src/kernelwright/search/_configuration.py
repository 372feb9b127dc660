"""How a search is to be run, and what follows from the space where nothing is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from typing import Any
from typing import Literal
from typing import TypeAlias
from typing import TypeVar

from kernelwright.errors import UsageError
from kernelwright.space import Space

Number = TypeVar("Number", int, float)
Direction: TypeAlias = Literal["min", "max"]

#: Evaluations of a search of which nothing is said: so many for each parameter, within these bounds.
_EVALUATIONS_EACH = 20
_EVALUATIONS = (50, 400)
_POOL = (8, 64)
_MUTATION = (0.05, 0.5)


@dataclass(frozen=True)
class SearchConfiguration:
    """How a search is to be run. What is None is derived from the space of d parameters and N points:

    - `pool_size`, the evaluations of a generation: 2·d, at least 8 and at most 64.
    - `max_evaluations`: generations · pool_size where generations are given; where only `max_time` is, no
      limit; else 20·d, at least 50 and at most 400. Never above N.
    - `generations`: max_evaluations / pool_size, rounded up.
    - `cull_size`, how many of a generation have no offspring: half of pool_size, rounded down.
    - `mutate_rate`, the chance of each parameter to change in an offspring: 1/d, at least 0.05 and at most
      0.5.
    - `baseline_every`, the evaluations between two of the baseline: pool_size.

    A generation is a count, not a barrier: generation g holds the evaluations g·pool_size to
    (g+1)·pool_size−1 in the order in which they finished. Evaluations of the baseline are extra: no limit
    counts them. Culling and mutation are those of the optimisers "genetic" and "nsga2".

    Args:
        problem_type: "min" or "max"; a sequence of them, one for each objective.
        normalize: whether the optimiser sees scores divided by the baseline's.
        seed: same seed, same evaluations with one worker.
        max_time: seconds, over all sittings of a run. What is in flight then is given up.
        optimizer: a name that `make_optimizer` knows, or a subclass or instance of Optimizer.
        optimizer_options: keyword arguments of the optimiser.

    Raises UsageError for a value that makes no sense.
    """

    generations: int | None = None
    pool_size: int | None = None
    cull_size: int | None = None
    mutate_rate: float | None = None
    num_objectives: int = 1
    problem_type: Direction | Sequence[Direction] = "min"
    normalize: bool = False
    seed: int = 0
    max_evaluations: int | None = None
    max_time: float | None = None
    optimizer: Any = "auto"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    baseline_every: int | None = None

    def __post_init__(self) -> None:
        for name in ("generations", "pool_size", "max_evaluations", "num_objectives", "baseline_every"):
            _whole(name, getattr(self, name), least=1)
        _whole("cull_size", self.cull_size, least=0)
        _whole("seed", self.seed, least=0)
        _number("mutate_rate", self.mutate_rate, above=0.0, most=1.0)
        _number("max_time", self.max_time, above=0.0, most=math.inf)
        if not isinstance(self.normalize, bool):
            raise UsageError(f"normalize is True or False, not {self.normalize!r}")
        if None not in (self.cull_size, self.pool_size) and self.cull_size >= self.pool_size:  # type: ignore[operator]
            raise UsageError(
                f"cull_size {self.cull_size} leaves nothing of pool_size {self.pool_size}; make it smaller"
            )
        stated = self.problem_type
        if not isinstance(stated, str):
            object.__setattr__(self, "problem_type", tuple(stated))
            if len(stated) != self.num_objectives:
                raise UsageError(
                    f"problem_type names {len(stated)} directions for num_objectives={self.num_objectives}; "
                    "give one each, or one for all"
                )
        for one in self.directions:
            if one not in ("min", "max"):
                raise UsageError(f"problem_type is 'min' or 'max', not {one!r}")
        object.__setattr__(self, "optimizer_options", dict(self.optimizer_options))

    @property
    def directions(self) -> tuple[str, ...]:
        """Whether each objective is to be minimised, `min`, or maximised, `max`."""
        stated = self.problem_type
        return (stated,) * self.num_objectives if isinstance(stated, str) else tuple(stated)

    @property
    def optimizer_name(self) -> str:
        """What the optimiser is called in a store."""
        if isinstance(self.optimizer, str):
            return self.optimizer
        kind = self.optimizer if isinstance(self.optimizer, type) else type(self.optimizer)
        return kind.__name__

    def derived(self, space: Space) -> SearchConfiguration:
        """The same with every None that has a default filled in; `max_evaluations` may stay None."""
        size = len(space.parameters)
        count = space.count()
        pool = self.pool_size or _within(2 * size, _POOL)
        if self.cull_size is not None and self.cull_size >= pool:
            pool = self.cull_size + 1
        most = self.max_evaluations
        if most is None and self.generations is not None:
            most = self.generations * pool
        elif most is None and self.max_time is None:
            most = _within(_EVALUATIONS_EACH * size, _EVALUATIONS)
        elif most is not None and self.generations is not None:
            most = min(most, self.generations * pool)
        if most is not None and count is not None:
            most = min(most, count)
        return replace(
            self,
            pool_size=pool,
            max_evaluations=most,
            generations=self.generations if most is None else math.ceil(most / pool),
            cull_size=pool // 2 if self.cull_size is None else self.cull_size,
            mutate_rate=_within(1 / size, _MUTATION) if self.mutate_rate is None else self.mutate_rate,
            baseline_every=self.baseline_every or pool,
        )

    def to_json(self) -> dict[str, Any]:
        """What a store keeps: all fields, the optimiser by name."""
        kept = {one.name: getattr(self, one.name) for one in fields(self)}
        kept["optimizer"] = self.optimizer_name
        kept["problem_type"] = (
            self.problem_type if isinstance(self.problem_type, str) else list(self.problem_type)
        )
        return kept


def _within(number: Number, bounds: tuple[Number, Number]) -> Number:
    return min(max(number, bounds[0]), bounds[1])


def _whole(name: str, value: Any, *, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} is a whole number of at least {least}, not {value!r}")


def _number(name: str, value: Any, *, above: float, most: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value <= most:
        top = "" if math.isinf(most) else f" and at most {most:g}"
        raise UsageError(f"{name} is a number above {above:g}{top}, not {value!r}")
