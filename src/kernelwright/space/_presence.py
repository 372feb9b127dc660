"""Presence: parameters that may be absent, because they are knocked out or because a condition fails."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._parameters import MAX_LISTED
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Value


class Optional(Parameter):
    """Another parameter, or None."""

    def __init__(self, inner: Parameter) -> None:
        self.inner = inner
        self.default = inner.default
        self.stated = inner.stated

    def contains(self, value: object) -> bool:
        """Whether `value` is None or one of the inner parameter's."""
        return value is None or self.inner.contains(value)

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """The inner neighbours, then None; from None, the inner default and its neighbours."""
        if value is None:
            return (self.inner.default, *self.inner.neighbours(self.inner.default))
        inner = self.inner.neighbours(value)
        return inner if any(other is None for other in inner) else (*inner, None)

    def values(self) -> tuple[Value, ...] | None:
        """The inner values, then None."""
        inner = self.inner.values()
        if inner is None or len(inner) >= MAX_LISTED:
            return None
        return inner if self.inner.contains(None) else (*inner, None)

    @property
    def count(self) -> int | None:
        """One more than the inner parameter has."""
        if self.inner.count is None or self.inner.contains(None):
            return self.inner.count
        return self.inner.count + 1

    def encode(self, value: Value) -> tuple[float, ...]:
        """Half for being there, and half of the inner encoding; None stands at the inner default."""
        there = self.inner.default if value is None else value
        return (0.0 if value is None else 0.5, *(number / 2 for number in self.inner.encode(there)))

    def nearest(self, value: object) -> Value | None:
        """What is nearest to `value` inside."""
        return self.inner.nearest(value)

    def normalise(self, value: Value) -> Value:
        """As the inner parameter has it; None stays."""
        return None if value is None else self.inner.normalise(value)


class Knockout(Optional):
    """A parameter that is left out with the probability `knockout_prob`: then its value is None."""

    def __init__(self, inner: Parameter, knockout_prob: float) -> None:
        if not 0 < knockout_prob < 1:
            raise SpaceError(f"knockout_prob must be at least 0 and below 1, got {knockout_prob}")
        super().__init__(inner)
        self.knockout_prob = knockout_prob

    def __repr__(self) -> str:
        return f"Knockout({self.inner!r}, knockout_prob={self.knockout_prob})"

    def sample(self, rng: random.Random) -> Value:
        """None with the given probability, else an inner draw."""
        return None if rng.random() < self.knockout_prob else self.inner.sample(rng)

    def weights(self) -> tuple[float, ...] | None:
        """The inner weights scaled to what None leaves, one on average."""
        values = self.inner.values()
        if values is None:
            return None
        inner = self.inner.weights() or (1.0,) * len(values)
        size = len(inner) + 1
        scale = (1 - self.knockout_prob) * size / sum(inner)
        return (*(weight * scale for weight in inner), self.knockout_prob * size)


class Conditional(Optional):
    """A parameter that is active only where all its conditions hold; elsewhere its value is None.

    A condition that looks at a parameter which is itself absent does not hold.
    """

    def __init__(self, conditions: Sequence[Constraint], inner: Parameter) -> None:
        self.conditions: tuple[Constraint, ...] = tuple(conditions)
        if isinstance(inner, Conditional):
            self.conditions += inner.conditions
            inner = inner.inner
        super().__init__(inner)
        for condition in self.conditions:
            if condition.scope is None:
                raise SpaceError(
                    f"the condition {condition.name!r} looks at the whole configuration; name the parameters "
                    "that it looks at"
                )

    def __repr__(self) -> str:
        return f"Conditional({[one.name for one in self.conditions]}, {self.inner!r})"

    def sample(self, rng: random.Random) -> Value:
        """An inner draw, as if active; `Space.sample` minds the conditions."""
        return self.inner.sample(rng)

    def weights(self) -> tuple[float, ...] | None:
        """The inner weights; one for not being active."""
        inner = self.inner.weights()
        return inner if inner is None or self.inner.contains(None) else (*inner, 1.0)

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """The inner neighbours while active; whether it is active is not its own to choose."""
        return () if value is None and not self.inner.contains(None) else self.inner.neighbours(value)


class Activity(Constraint):
    """That a conditional parameter has a value where it is active, and None elsewhere."""

    def __init__(self, name: str, parameter: Conditional) -> None:
        self.parameter = parameter
        self.child = name
        parents: dict[str, None] = {}
        for condition in parameter.conditions:
            parents.update(dict.fromkeys(condition.scope or ()))
        self.parents = tuple(parents)
        words = " and ".join(one.name for one in parameter.conditions)
        self.name = f"{name} is there only when {words}"
        self.scope = (name, *self.parents)
        self.expression = None
        self.known_as = None
        self.may_be_none = parameter.inner.contains(None)

    def active(self, configuration: Mapping[str, Value]) -> bool:
        """Whether all conditions hold."""
        return all(one.is_met_by_present(configuration) for one in self.parameter.conditions)

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        """Whether the parameter is there exactly when it should be."""
        if configuration[self.child] is None:
            return self.may_be_none or not self.active(configuration)
        return self.active(configuration)

    def table(self, domains: Sequence[Sequence[Value]]) -> list[bool]:
        """`holds` on the whole grid, asking the conditions once for each choice of parents."""
        active = [
            self.active(dict(zip(self.parents, values, strict=True)))
            for values in itertools.product(*domains[1:])
        ]
        asleep = [not one for one in active]
        cells: list[bool] = []
        for value in domains[0]:
            if value is None:
                cells += [True] * len(active) if self.may_be_none else asleep
            else:
                cells += active
        return cells


def settle(configuration: Configuration, activities: Sequence[Activity]) -> list[str]:
    """Put to sleep and wake what a change demands: None, or the default. Returns what was woken.

    `activities` come with parents first.
    """
    woken = []
    for one in activities:
        if not one.active(configuration):
            configuration[one.child] = None
        elif configuration[one.child] is None and not one.may_be_none:
            configuration[one.child] = one.parameter.default
            woken.append(one.child)
    return woken


@dataclass(frozen=True)
class Part:
    """A part of a template that is there only where a condition holds."""

    condition: Constraint
    template: Any


def when(condition: str | Callable[..., bool] | Constraint, what: Any) -> Any:
    """`what` only where `condition` holds: a parameter, or in a template also a dict, Space or provider.

    Where the condition does not hold, the parameter is not active: its value is None, the objective's
    configuration lacks it, and constraints that look at it are not asked.

    >>> {"schedule": choice(["static", "dynamic"]), "chunk": when("schedule == 'dynamic'", range(1, 64))}
    """
    made = condition if isinstance(condition, Constraint) else Constraint(condition)
    if isinstance(what, Parameter):
        return Conditional((made,), what)
    return Part(made, what)
