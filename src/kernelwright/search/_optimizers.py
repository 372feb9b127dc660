"""Optimisers by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search._optimizer import Optimizer
from kernelwright.space import Space

#: Loaded on use: the model needs numpy, the adapters their packages.
_NAMED = {
    "auto": ("_auto", "AutoSearch"),
    "random": ("_random", "RandomSearch"),
    "annealing": ("_annealing", "Annealing"),
    "hill_climbing": ("_hill", "HillClimbing"),
    "genetic": ("_genetic", "GeneticSearch"),
    "nsga2": ("_nsga2", "NSGA2"),
    "pairwise_gp": ("_pairwise", "PairwiseGP"),
    "optuna": ("_optuna", "OptunaSearch"),
    "pymoo": ("_pymoo", "PymooSearch"),
}

#: What `make_optimizer` knows by name.
OPTIMIZERS: tuple[str, ...] = tuple(_NAMED)


def make_optimizer(
    optimizer: str | Callable[..., Optimizer] | Optimizer,
    space: Space,
    *,
    seed: int = 0,
    objectives: int = 1,
    **options: Any,
) -> Optimizer:
    """An optimiser for `space`, by name, class (or function that makes one), or the instance itself.

    Args:
        optimizer: one of `OPTIMIZERS`, a callable `(space, *, seed, objectives, **options) -> Optimizer`, or
            an instance that was made for this space and number of objectives.
        space: what is searched.
        seed: of all its draws.
        objectives: how many scores are told.
        options: for the constructor.

    Raises UnknownNameError for another name or an option that the optimiser does not have, with the nearest;
    UsageError for an instance of another space or number of objectives, or together with options;
    MissingExtraError where an adapter's package is not installed.
    """
    if isinstance(optimizer, Optimizer):
        return _checked(optimizer, space, objectives, options)
    if isinstance(optimizer, str):
        if optimizer not in _NAMED:
            raise UnknownNameError("optimiser", optimizer, OPTIMIZERS)
        module, name = _NAMED[optimizer]
        make: Callable[..., Any] = getattr(importlib.import_module(f"kernelwright.search.{module}"), name)
        who = optimizer
    else:
        make, who = optimizer, getattr(optimizer, "__name__", repr(optimizer))
    _know(make, who, options)
    made = make(space, seed=seed, objectives=objectives, **options)
    if not isinstance(made, Optimizer):
        raise UsageError(f"{who} made a {type(made).__name__}, not an Optimizer; return a subclass of it")
    return made


def _checked(optimizer: Optimizer, space: Space, objectives: int, options: dict[str, Any]) -> Optimizer:
    who = type(optimizer).__name__
    if options:
        raise UsageError(f"this {who} is made already: give the options {sorted(options)} to its constructor")
    if optimizer.space is not space:
        raise UsageError(f"this {who} was made for another space; give the class, or make it with this one")
    if optimizer.objectives != objectives:
        raise UsageError(f"this {who} takes {optimizer.objectives} objectives, the search has {objectives}")
    return optimizer


def _know(make: Callable[..., Any], who: str, options: dict[str, Any]) -> None:
    parameters = inspect.signature(make).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    known = [name for name in parameters if name not in ("space", "seed", "objectives")]
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of the optimiser {who!r}", name, known)
