"""The space: parameters under constraints; everything it hands out is inside."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._constraints import ConstraintLike
from kernelwright.space._contradiction import contradiction
from kernelwright.space._domains import Domain
from kernelwright.space._groups import Group
from kernelwright.space._groups import MAX_ENUMERATED
from kernelwright.space._groups import tie
from kernelwright.space._groups import unlistable
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import same
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Activity
from kernelwright.space._presence import Conditional
from kernelwright.space._presence import settle

_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def key(configuration: Mapping[str, Value]) -> str:
    """The canonical text of a configuration: equal for equal configurations, whatever their order."""
    return _ENCODE(configuration if isinstance(configuration, dict) else dict(configuration))


class Space:
    """What can be chosen: named parameters and the constraints between them.

    A configuration is a plain dict of one value a parameter. The default configuration takes each parameter's
    default; where unstated defaults violate a constraint, the closest valid values stand in for them.
    A conditional parameter (`when`) is None exactly where it is not active, so no configuration comes twice.

    Sampling and neighbours stay inside the constraints. Parameters that no constraint ties are independent.
    Tied ones are listed by the constraint solver up to `MAX_ENUMERATED` combinations, and beyond that counted
    and drawn exactly by variable elimination where each constraint looks at few enough values; a space is
    never listed just because it is large. What is left (constraints over very many values, a continuum under
    a constraint) is drawn, rejected and repaired: valid, but not counted, and uniform only as far as
    rejection finds points. Draws are uniform over configurations, except that a log scale and a knock-out
    weigh theirs.

    Raises SpaceError for a space with no parameter, or with no valid configuration, naming the constraints
    that exclude each other; UnknownNameError for a constraint on a parameter that is not there.
    """

    def __init__(
        self, parameters: Mapping[str, Parameter], constraints: Iterable[ConstraintLike] = ()
    ) -> None:
        if not parameters:
            raise SpaceError("a space needs at least one parameter")
        self.parameters: Mapping[str, Parameter] = MappingProxyType(
            {name: _bound(name, parameter, parameters) for name, parameter in parameters.items()}
        )
        made = (one if isinstance(one, Constraint) else Constraint(one) for one in constraints)
        self.constraints = tuple(one.bound_to(self.parameters) for one in made)
        self._activities = _parents_first(
            [Activity(name, one) for name, one in self.parameters.items() if isinstance(one, Conditional)]
        )
        names = tuple(self.parameters)
        self._rules: tuple[Constraint, ...] = (
            *(one.moved_to("", names) if one.scope is None else one for one in self.constraints),
            *self._activities,
        )
        self._domains = {name: Domain(name, parameter) for name, parameter in self.parameters.items()}
        self._groups = self._tie()
        self._group_of = {name: group for group in self._groups for name in group.names}
        self._default = self._find_default()

    def __reduce__(self) -> tuple[Any, ...]:
        # What it is made of; groups and tables are worked out again where it goes.
        return Space, (dict(self.parameters), self.constraints)

    def __repr__(self) -> str:
        return f"Space({dict(self.parameters)}, constraints={[one.name for one in self.constraints]})"

    @property
    def default(self) -> Configuration:
        """The default configuration, a fresh dict."""
        return dict(self._default)

    def contains(self, configuration: Mapping[str, Value]) -> bool:
        """Whether it has exactly the parameters, valid values, and meets all constraints."""
        return self._taken(configuration) is not None

    def violated(self, configuration: Mapping[str, Value]) -> list[Constraint]:
        """The constraints that it does not meet; a condition of a parameter counts as one."""
        return [rule for rule in self._rules if not rule.holds(configuration)]

    def validate(self, configuration: Mapping[str, Value]) -> Configuration:
        """The configuration as a fresh dict in the order of the parameters; lists become tuples again.

        Raises UnknownNameError for a parameter that is not there (with the nearest names), SpaceError for a
        missing one, for a value that is not allowed (with the nearest that is), for a violated constraint.
        """
        taken = self._taken(configuration)
        if taken is not None:
            return taken
        for name in configuration:
            if name not in self.parameters:
                raise UnknownNameError("parameter", name, self.parameters)
        for name, parameter in self.parameters.items():
            if name not in configuration:
                raise SpaceError(f"parameter {name!r} is missing; its default is {parameter.default!r}")
            value = configuration[name]
            if not parameter.contains(value):
                close = parameter.nearest(value)
                hint = "" if close is None else f"; the nearest valid value is {close!r}"
                raise SpaceError(f"parameter {name!r} cannot be {value!r}{hint}: {parameter}")
        for rule in self.violated(configuration):
            if isinstance(rule, Activity):
                seen = {name: configuration[name] for name in rule.parents}
                fault = "is missing" if rule.active(configuration) else f"is {configuration[rule.child]!r}"
                raise SpaceError(f"{rule.name}, but it {fault} where {seen}")
            seen = {name: configuration[name] for name in rule.scope or self.parameters}
            raise SpaceError(f"the constraint {rule.name!r} is violated by {seen}")
        raise SpaceError(f"the configuration {dict(configuration)} is outside the space")

    def sample(self, rng: random.Random) -> Configuration:
        """One valid configuration at random. Raises SpaceError when none is found."""
        drawn: Configuration = {}
        for group in self._groups:
            drawn.update(group.draw(rng))
        return {name: drawn[name] for name in self.parameters}

    def neighbours(self, configuration: Mapping[str, Value], rng: random.Random) -> list[Configuration]:
        """Valid configurations that differ in one parameter, in random order.

        Conditions wake and put to sleep what depends on it. A parameter that cannot change alone because of
        constraints changes with as few others as can be found.
        """
        found = [
            {**configuration, **change} for group in self._groups for change in group.near(configuration, rng)
        ]
        rng.shuffle(found)
        return found

    def neighbour(self, configuration: Mapping[str, Value], rng: random.Random) -> Configuration | None:
        """One of `neighbours`, cheaper than all; None where there is none.

        A group of tied parameters is as likely as it has parameters.
        """
        names = list(self.parameters)
        for _ in names:
            group = self._group_of[names[int(rng.random() * len(names))]]
            near = group.near(configuration, rng)
            if near:
                return {**configuration, **near[int(rng.random() * len(near))]}
        found = self.neighbours(configuration, rng)
        return found[0] if found else None

    def count(self) -> int | None:
        """How many valid configurations there are, exactly; None for a continuum or where it is not known."""
        total = 1
        for group in self._groups:
            size = group.count()
            if size is None:
                return None
            total *= size
        return total

    def configurations(self) -> Iterator[Configuration]:
        """All valid configurations, in a fixed order. Raises SpaceError where they cannot be listed."""
        count = self.count()
        if count is None or count > MAX_ENUMERATED:
            raise unlistable()
        yield from self._combine(0, {})

    def encode(self, configuration: Mapping[str, Value]) -> tuple[float, ...]:
        """All parameters as numbers in [0, 1], one after the other."""
        return tuple(
            [number for name, domain in self._domains.items() for number in domain.code(configuration[name])]
        )

    def distance(self, left: Mapping[str, Value], right: Mapping[str, Value]) -> float:
        """L1 distance of the encodings plus half the number of parameters that differ."""
        far = sum(abs(a - b) for a, b in zip(self.encode(left), self.encode(right), strict=True))
        return far + 0.5 * sum(not same(left[name], right[name]) for name in self.parameters)

    def _taken(self, configuration: Mapping[str, Value]) -> Configuration | None:
        """The configuration as the space hands it out, or None when it is not inside."""
        if len(configuration) != len(self.parameters):
            return None
        taken: Configuration = {}
        for name, domain in self._domains.items():
            if name not in configuration:
                return None
            value = configuration[name]
            if domain.values is not None:
                place = domain.place(value)
                if place < 0:
                    return None
                taken[name] = domain.values[place]
            elif domain.parameter.contains(value):
                taken[name] = domain.parameter.normalise(value)
            else:
                return None
        return taken if all(group.allows(taken) for group in self._groups) else None

    def _combine(self, index: int, chosen: Configuration) -> Iterator[Configuration]:
        if index == len(self._groups):
            yield {name: chosen[name] for name in self.parameters}
            return
        listed = self._groups[index].listed()
        if listed is None:
            raise unlistable()
        for values in listed:
            yield from self._combine(index + 1, {**chosen, **values})

    def _tie(self) -> list[Group]:
        for rule in self._rules:
            if not rule.scope and not rule.holds({}):
                raise SpaceError(f"the space is empty: no configuration meets the constraint {rule.name!r}")
        return tie(list(self._domains.values()), [rule for rule in self._rules if rule.scope])

    def _find_default(self) -> Configuration:
        default: Configuration = {name: one.default for name, one in self.parameters.items()}
        settle(default, self._activities)
        for group in self._groups:
            if group.allows(default):
                continue
            mine = {name: default[name] for name in group.names}
            instead = group.stand_in(mine)
            if instead is None:
                raise SpaceError(contradiction(group))
            moved = [name for name in group.names if self.parameters[name].stated]
            if any(not same(instead[name], default[name]) and default[name] is not None for name in moved):
                broken = next(rule for rule in group.rules if not rule.holds(default))
                seen = {name: default[name] for name in broken.scope or group.names}
                raise SpaceError(f"the default configuration violates the constraint {broken.name!r}: {seen}")
            default.update(instead)
        return default


def _bound(name: str, parameter: Parameter, names: Collection[str]) -> Parameter:
    if not isinstance(parameter, Conditional):
        return parameter
    within = name[: name.rfind(".") + 1]
    return Conditional([one.bound_to(names, within) for one in parameter.conditions], parameter.inner)


def _parents_first(activities: Sequence[Activity]) -> tuple[Activity, ...]:
    left = {one.child: one for one in activities}
    ordered: list[Activity] = []
    while left:
        ready = [one for one in left.values() if not any(parent in left for parent in one.parents)]
        if not ready:
            raise SpaceError(
                f"the conditions of {' and '.join(map(repr, left))} depend on one another in a circle; leave "
                "one out"
            )
        for one in ready:
            ordered.append(left.pop(one.child))
    return tuple(ordered)
