"""The fewest settings that keep a win, for an objective and its search space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernelwright.errors import SpaceError
from kernelwright.search import _task
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._minimize import minimize_settings
from kernelwright.search._minimize import Minimized
from kernelwright.search._optimizer import Failure
from kernelwright.space import Conditional
from kernelwright.space import Configuration
from kernelwright.space import SearchSpace
from kernelwright.space import Space


def minimize_in_space(
    evaluate: Callable[[Any], Any],
    search_space: Any,
    evaluation: Evaluation,
    *,
    num_objectives: int = 1,
    objective: int = 0,
    maximise: bool = False,
    reference: Any = None,
    **options: Any,
) -> Minimized:
    """`minimize_settings` for an objective and a search space, as `SearchResult.minimize` says."""
    compiled = search_space if isinstance(search_space, SearchSpace) else SearchSpace(search_space)
    space = compiled.space
    names = list(space.parameters)
    start = reference_of(compiled) if reference is None else compiled.flat(reference)

    def score(configuration: Configuration) -> float | Failure:
        try:
            answer = evaluate(compiled.config(configuration))
        # What a stranger's objective raises is that candidate's failure.
        except Exception as error:  # noqa: BLE001
            return Failure("raised", f"{type(error).__name__}: {error}")
        if isinstance(answer, Failure):
            return answer
        scores, failure = _task.judge(answer, num_objectives)
        if scores is None:
            return Failure(*(failure or ("invalid_score", "no score")))
        return float(scores[objective])

    def allowed(configuration: Configuration) -> str:
        try:
            space.validate(configuration)
        except (SpaceError, LookupError) as error:
            return str(error)
        return ""

    winner = {name: evaluation.configuration.get(name) for name in names}
    found = minimize_settings(
        score,
        winner,
        start,
        maximise=maximise,
        allowed=allowed,
        settled=lambda configuration: _settled(space, configuration),
        **options,
    )
    return replace(found, params=compiled.config(found.configuration))


def reference_of(compiled: SearchSpace) -> Configuration:
    """Everything left out where the space allows that, else its default."""
    nothing: Configuration = dict.fromkeys(compiled.space.parameters)
    try:
        return compiled.space.validate(nothing)
    except (SpaceError, LookupError):
        return dict(compiled.space.default)


def _settled(space: Space, configuration: Configuration) -> Configuration:
    """Conditional parameters left out where they are not active, at their default where they have to be."""
    made = dict(configuration)
    conditional = [(name, one) for name, one in space.parameters.items() if isinstance(one, Conditional)]
    for _ in conditional:  # as deep as conditions can hang on each other
        for name, one in conditional:
            if not all(condition.is_met_by_present(made) for condition in one.conditions):
                made[name] = None
            elif made[name] is None and not one.inner.contains(None):
                made[name] = one.default
    return made
