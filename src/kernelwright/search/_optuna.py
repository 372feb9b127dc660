"""Optuna's samplers as optimisers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kernelwright.errors import MissingExtraError
from kernelwright.errors import UnknownNameError
from kernelwright.search._axes import Axes
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space

_SAMPLERS = {
    "tpe": "TPESampler",
    "nsga2": "NSGAIISampler",
    "nsga3": "NSGAIIISampler",
    "random": "RandomSampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
}
#: How often the sampler may come back with what was seen.
_TRIES = 10


class OptunaSearch(Optimizer):
    """What a sampler of Optuna suggests, made valid and new.

    Optuna knows no constraints between parameters: a suggestion that violates one is mended towards a random
    valid configuration, whose score is then told for what was suggested. A suggestion that was seen
    is told its known scores, or a failure, and another one is asked for; after ten of them, a random new
    configuration is taken. Failures are told as failed. Needs `pip install 'kernelwright[optuna]'`.

    Args:
        sampler: "tpe", "nsga2", "nsga3", "random", "gp" or "cmaes", or a function from a seed to a sampler.
        sampler_options: for the named sampler's constructor.

    Raises MissingExtraError without Optuna, UnknownNameError for another sampler's name.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        sampler: str | Callable[[int], Any] | None = None,
        **sampler_options: Any,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives)
        self._optuna = _optuna()
        self._axes = Axes(space)
        if sampler is None:
            sampler = "tpe" if objectives == 1 else "nsga2"
        if isinstance(sampler, str):
            if sampler not in _SAMPLERS:
                raise UnknownNameError("sampler of Optuna", sampler, _SAMPLERS)
            made = getattr(self._optuna.samplers, _SAMPLERS[sampler])(seed=seed, **sampler_options)
        else:
            made = sampler(seed)
        self._study = _quiet_study(self._optuna, made, objectives)
        self._distributions = self._distributed()
        self._trials: dict[str, Any] = {}

    def _propose(self, rng: random.Random) -> Proposal | None:
        for _ in range(_TRIES):
            trial = self._study.ask(self._distributions)
            configuration, exact = self._axes.configuration(trial.params, rng)
            name = key(configuration)
            if self._is_new(configuration):
                self._trials[name] = trial
                return Proposal(configuration, "sampler" if exact else "mended")
            self._finish(trial, self.vectors.get(name))
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random")

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        trial = self._trials.pop(key(configuration), None)
        if trial is not None:
            self._finish(trial, scores)
        else:
            self._study.add_trial(
                self._optuna.trial.create_trial(
                    params=self._axes.places(configuration),
                    distributions=self._distributions,
                    values=list(scores),
                )
            )

    def _learn_failure(self, configuration: Configuration, failure: Failure) -> None:
        trial = self._trials.pop(key(configuration), None)
        if trial is not None:
            self._finish(trial, None)

    def _finish(self, trial: Any, scores: tuple[float, ...] | None) -> None:
        if scores is None:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, list(scores))

    def _distributed(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for axis in self._axes.axes:
            if axis.size is None:
                made[axis.name] = self._optuna.distributions.FloatDistribution(0.0, 1.0)
            elif axis.ordered:
                made[axis.name] = self._optuna.distributions.IntDistribution(0, axis.size - 1)
            else:
                made[axis.name] = self._optuna.distributions.CategoricalDistribution(range(axis.size))
        return made


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("optuna", "optuna", "for the optimiser 'optuna'") from error
    return optuna


def _quiet_study(optuna: Any, sampler: Any, objectives: int) -> Any:
    """A new study, without the line that Optuna logs for one."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    finally:
        optuna.logging.set_verbosity(before)
