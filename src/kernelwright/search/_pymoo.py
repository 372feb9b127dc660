"""pymoo's algorithms as optimisers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelwright.errors import MissingExtraError
from kernelwright.errors import UnknownNameError
from kernelwright.search._axes import Axes
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space

_ALGORITHMS = ("ga", "nsga2")
#: How many generations of nothing but what was seen are asked for before chance takes over.
_GENERATIONS = 3


class PymooSearch(Optimizer):
    """What an algorithm of pymoo breeds, made valid and new.

    pymoo works in generations; nobody waits for one here: when all of a generation was handed out, what has
    been told so far ends it, and what comes later joins the next one. While nothing is told, random
    configurations are proposed. An individual that violates a constraint is mended towards a random valid
    configuration, and takes part as what was evaluated; one that was seen takes part with its known scores. A
    failure takes part with scores worse than all seen. Needs `pip install 'kernelwright[pymoo]'`.

    Args:
        algorithm: "ga" (one objective), "nsga2", or a function without arguments that makes an algorithm that
            can be asked and told and works on pymoo's mixed variables.
        pool_size: individuals in a generation of a named algorithm.

    Raises MissingExtraError without pymoo, UnknownNameError for another algorithm's name.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        algorithm: str | Callable[[], Any] | None = None,
        pool_size: int = 20,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives)
        _needed()
        self._axes = Axes(space)
        self._count = space.count()
        if algorithm is None:
            algorithm = "ga" if objectives == 1 else "nsga2"
        if isinstance(algorithm, str) and algorithm not in _ALGORITHMS:
            raise UnknownNameError("algorithm of pymoo", algorithm, _ALGORITHMS)
        self._algorithm = _named(algorithm, pool_size) if isinstance(algorithm, str) else algorithm()
        from pymoo.core.termination import NoTermination  # type: ignore[import-untyped]

        self._algorithm.setup(_problem(self._axes, objectives), termination=NoTermination(), seed=seed)
        self._waiting: list[tuple[Any, Configuration]] = []
        self._out: dict[str, Any] = {}
        self._done: list[tuple[Any, tuple[float, ...] | None]] = []
        self._generation = -1

    def _propose(self, rng: random.Random) -> Proposal | None:
        # Where most was seen, breeding brings next to nothing new, and slowly.
        worthwhile = self._count is None or 2 * len(self._seen) < self._count
        for _ in range(_GENERATIONS if self._axes.axes and worthwhile else 0):
            while self._waiting:
                individual, configuration = self._waiting.pop(0)
                name = key(configuration)
                if self._is_new(configuration):
                    self._out[name] = individual
                    return Proposal(configuration, "bred", self._generation)
                if name not in self.pending:
                    self._done.append((individual, self.vectors.get(name)))
            if self._generation >= 0 and not self._done:
                break
            self._breed(rng)
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random", max(self._generation, 0))

    def _breed(self, rng: random.Random) -> None:
        from pymoo.core.population import Population  # type: ignore[import-untyped]

        if self._generation >= 0:
            for individual, scores in self._done:
                individual.set("F", np.array(self._penalty() if scores is None else scores))
            self._algorithm.tell(infills=Population.create(*(one for one, _ in self._done)))
            self._done = []
        self._generation += 1
        bred = self._algorithm.ask()
        # None where it found nothing that is not a duplicate.
        for individual in () if bred is None else bred:
            configuration, _ = self._axes.configuration(individual.X, rng)
            individual.X = dict(self._axes.places(configuration))
            self._waiting.append((individual, configuration))

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        individual = self._out.pop(key(configuration), None)
        if individual is not None:
            self._done.append((individual, scores))

    def _learn_failure(self, configuration: Configuration, failure: Failure) -> None:
        individual = self._out.pop(key(configuration), None)
        if individual is not None:
            self._done.append((individual, None))

    def _penalty(self) -> list[float]:
        if not self.vectors:
            return [1.0] * self.objectives
        columns = list(zip(*self.vectors.values(), strict=True))
        return [max(column) + (max(column) - min(column) or 1.0) for column in columns]


def _needed() -> None:
    try:
        import pymoo  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pymoo", "pymoo", "for the optimiser 'pymoo'") from error


def _named(name: str, pool_size: int) -> Any:
    from pymoo.core.mixed import MixedVariableDuplicateElimination  # type: ignore[import-untyped]
    from pymoo.core.mixed import MixedVariableGA
    from pymoo.core.mixed import MixedVariableMating

    # Its own search for what is not a duplicate takes seconds in small spaces; whatever it does not find is
    # made up for here.
    unlike = MixedVariableDuplicateElimination()
    more: dict[str, Any] = {
        "pop_size": pool_size,
        "mating": MixedVariableMating(eliminate_duplicates=unlike, n_max_iterations=2),
        "eliminate_duplicates": unlike,
    }
    if name == "nsga2":
        from pymoo.operators.survival import rank_and_crowding  # type: ignore[import-untyped]

        more["survival"] = rank_and_crowding.RankAndCrowding()
    return MixedVariableGA(**more)


def _problem(axes: Axes, objectives: int) -> Any:
    from pymoo.core.problem import Problem  # type: ignore[import-untyped]
    from pymoo.core.variable import Choice  # type: ignore[import-untyped]
    from pymoo.core.variable import Integer
    from pymoo.core.variable import Real

    variables: dict[str, Any] = {}
    for axis in axes.axes:
        if axis.size is None:
            variables[axis.name] = Real(bounds=(0.0, 1.0))
        elif axis.ordered:
            variables[axis.name] = Integer(bounds=(0, axis.size - 1))
        else:
            variables[axis.name] = Choice(options=list(range(axis.size)))
    return Problem(vars=variables, n_obj=objectives)
