"""The space: parameters under constraints; everything it hands out is inside."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._constraints import ConstraintLike
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import same
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Activity
from kernelwright.space._presence import Conditional

#: Parameters tied by constraints are listed out only up to this many combinations.
MAX_ENUMERATED = 100_000
_REJECTIONS = 500
_REPAIRS = 1000
_REPAIR_OPTIONS = 256
_STEPS = 8
_STEP_OPTIONS = 64


def key(configuration: Mapping[str, Value]) -> str:
    """The canonical text of a configuration: equal for equal configurations, whatever their order."""
    return json.dumps(dict(configuration), sort_keys=True, separators=(",", ":"))


@dataclass
class _Group:
    """Parameters tied to one another by constraints; groups are independent."""

    names: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    combinations: int | None
    listed: list[tuple[Value, ...]] | None = None

    @property
    def can_list(self) -> bool:
        return self.combinations is not None and self.combinations <= MAX_ENUMERATED


class Space:
    """What can be chosen: named parameters and the constraints between them.

    A configuration is a plain dict of one value a parameter. The default configuration takes each parameter's
    default; where unstated defaults violate a constraint, the first valid values stand in for them.
    Sampling and neighbours stay inside the constraints. Parameters that no constraint ties are independent,
    so counting is exact and sampling uniform as long as each tied group has at most `MAX_ENUMERATED`
    combinations; beyond that nothing is listed: points are drawn, rejected and repaired.

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
        self._activities = tuple(
            Activity(name, one) for name, one in self.parameters.items() if isinstance(one, Conditional)
        )
        self._rules = (*self.constraints, *self._activities)
        self._groups = self._tie()
        self._default = self._find_default()

    def __repr__(self) -> str:
        return f"Space({dict(self.parameters)}, constraints={[one.name for one in self.constraints]})"

    @property
    def default(self) -> Configuration:
        """The default configuration, a fresh dict."""
        return dict(self._default)

    def contains(self, configuration: Mapping[str, Value]) -> bool:
        """Whether it has exactly the parameters, valid values, and meets all constraints."""
        return (
            configuration.keys() == self.parameters.keys()
            and all(parameter.contains(configuration[name]) for name, parameter in self.parameters.items())
            and not self.violated(configuration)
        )

    def violated(self, configuration: Mapping[str, Value]) -> list[Constraint]:
        """The constraints that it does not meet."""
        return [constraint for constraint in self._rules if not constraint.holds(configuration)]

    def validate(self, configuration: Mapping[str, Value]) -> Configuration:
        """The configuration as a fresh dict in the order of the parameters.

        Raises UnknownNameError for a parameter that is not there (with the nearest names), SpaceError for a
        missing one, for a value that is not allowed (with the nearest that is), for a violated constraint.
        """
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
        for constraint in self.violated(configuration):
            seen = {name: configuration[name] for name in constraint.scope or self.parameters}
            raise SpaceError(f"the constraint {constraint.name!r} is violated by {seen}")
        return {name: one.normalise(configuration[name]) for name, one in self.parameters.items()}

    def sample(self, rng: random.Random) -> Configuration:
        """One valid configuration at random. Raises SpaceError when none is found."""
        drawn: Configuration = {}
        for group in self._groups:
            drawn.update(self._draw(group, rng))
        return {name: drawn[name] for name in self.parameters}

    def neighbours(self, configuration: Mapping[str, Value], rng: random.Random) -> list[Configuration]:
        """Valid configurations that differ in one parameter, in random order.

        Where constraints leave no such neighbour, those that differ within one tied group stand in.
        """
        found = []
        for name, parameter in self.parameters.items():
            for value in parameter.neighbours(configuration[name]):
                changed = {**configuration, name: value}
                if all(c.holds(changed) for c in self._rules if c.scope is None or name in c.scope):
                    found.append(changed)
        if not found:
            for group in self._groups:
                changed = {**configuration, **self._draw(group, rng)}
                if key(changed) != key(configuration):
                    found.append(changed)
        rng.shuffle(found)
        return found

    def count(self) -> int | None:
        """How many valid configurations there are; None for a continuum or where they cannot be listed."""
        total = 1
        for group in self._groups:
            if group.constraints and not group.can_list:
                return None
            size = len(self._list(group)) if group.constraints else group.combinations
            if size is None:
                return None
            total *= size
        return total

    def configurations(self) -> Iterator[Configuration]:
        """All valid configurations, in a fixed order. Raises SpaceError where they cannot be listed."""
        count = self.count()
        if count is None or count > MAX_ENUMERATED or not all(group.can_list for group in self._groups):
            raise SpaceError(f"too many configurations to list (more than {MAX_ENUMERATED} or a continuum)")
        yield from self._combine(0, {})

    def encode(self, configuration: Mapping[str, Value]) -> tuple[float, ...]:
        """All parameters as numbers in [0, 1], one after the other."""
        return tuple(
            number
            for name, parameter in self.parameters.items()
            for number in parameter.encode(configuration[name])
        )

    def distance(self, left: Mapping[str, Value], right: Mapping[str, Value]) -> float:
        """L1 distance of the encodings plus half the number of parameters that differ."""
        far = sum(abs(a - b) for a, b in zip(self.encode(left), self.encode(right), strict=True))
        return far + 0.5 * sum(not same(left[name], right[name]) for name in self.parameters)

    def _combine(self, index: int, chosen: Configuration) -> Iterator[Configuration]:
        if index == len(self._groups):
            yield {name: chosen[name] for name in self.parameters}
            return
        group = self._groups[index]
        for values in self._list(group):
            yield from self._combine(index + 1, {**chosen, **dict(zip(group.names, values, strict=True))})

    def _tie(self) -> list[_Group]:
        together = {name: {name} for name in self.parameters}
        for constraint in self._rules:
            scope = self.parameters if constraint.scope is None else constraint.scope
            merged = set().union(*(together[name] for name in scope)) if scope else set()
            for name in merged:
                together[name] = merged
        groups: list[_Group] = []
        seen: set[str] = set()
        for name in self.parameters:
            if name in seen:
                continue
            names = tuple(other for other in self.parameters if other in together[name])
            seen.update(names)
            tied = tuple(c for c in self._rules if c.scope is None or any(n in names for n in c.scope))
            counts = [self.parameters[other].count for other in names]
            combinations = (
                None if None in counts else math.prod(count for count in counts if count is not None)
            )
            listable = all(self.parameters[other].values() is not None for other in names)
            groups.append(_Group(names, tied, combinations if listable or not tied else None))
        return groups

    def _list(self, group: _Group) -> list[tuple[Value, ...]]:
        if group.listed is None:
            group.listed = self._solutions(group.names, group.constraints)
        return group.listed

    def _solutions(
        self, names: tuple[str, ...], constraints: tuple[Constraint, ...]
    ) -> list[tuple[Value, ...]]:
        from constraint import FunctionConstraint
        from constraint import Problem

        domains: dict[str, tuple[Value, ...]] = {}
        for name in names:
            values = self.parameters[name].values()
            if values is None:
                raise SpaceError(f"parameter {name!r} has too many values to list")
            domains[name] = values
        # The solver compares values with ==, for which True is 1: it is given their places instead.
        problem = Problem()
        for name in names:
            problem.addVariable(name, list(range(len(domains[name]))))
        for constraint in constraints:
            scope = names if constraint.scope is None else constraint.scope
            problem.addConstraint(FunctionConstraint(_on_places(constraint, scope, domains)), list(scope))
        places = sorted(tuple(solution[name] for name in names) for solution in problem.getSolutions())
        return [tuple(domains[name][place] for name, place in zip(names, row, strict=True)) for row in places]

    def _draw(self, group: _Group, rng: random.Random) -> Configuration:
        if group.constraints and group.can_list:
            return dict(zip(group.names, rng.choice(self._list(group)), strict=True))
        for _ in range(_REJECTIONS if group.constraints else 1):
            drawn = {name: self.parameters[name].sample(rng) for name in group.names}
            if all(constraint.holds(drawn) for constraint in group.constraints):
                return drawn
        return self._walk(group, rng)

    def _walk(self, group: _Group, rng: random.Random) -> Configuration:
        current = {name: self._default[name] for name in group.names}
        for _ in range(_STEPS * len(group.names)):
            name = rng.choice(group.names)
            for value in self._some_values(name, current[name], _STEP_OPTIONS, rng):
                changed = {**current, name: value}
                if all(constraint.holds(changed) for constraint in group.constraints):
                    current = changed
                    break
        return current

    def _some_values(self, name: str, value: Value, limit: int, rng: random.Random) -> list[Value]:
        parameter = self.parameters[name]
        options = parameter.values() or (*parameter.neighbours(value), parameter.sample(rng))
        return rng.sample(options, min(len(options), limit))

    def _repair(self, group: _Group, start: Configuration, rng: random.Random) -> Configuration:
        """Min-conflicts (Minton et al., 1992) from an invalid point, with random restarts."""
        blamed: Counter[str] = Counter()
        current = {name: start[name] for name in group.names}
        for step in range(_REPAIRS):
            broken = [constraint for constraint in group.constraints if not constraint.holds(current)]
            if not broken:
                return current
            blamed.update(constraint.name for constraint in broken)
            if step % 50 == 49:
                current = {name: self.parameters[name].sample(rng) for name in group.names}
                continue
            name = rng.choice(rng.choice(broken).scope or group.names)
            scored = []
            for value in self._some_values(name, current[name], _REPAIR_OPTIONS, rng):
                changed = {**current, name: value}
                conflicts = sum(not constraint.holds(changed) for constraint in group.constraints)
                scored.append((conflicts, rng.random(), changed))
            current = min(scored, key=lambda entry: entry[:2])[2]
        worst, _ = blamed.most_common(1)[0]
        raise SpaceError(
            f"no valid configuration was found for {', '.join(group.names)}; the constraint {worst!r} was "
            "violated most often: loosen it, or state a valid default for each parameter"
        )

    def _find_default(self) -> Configuration:
        default = {name: parameter.default for name, parameter in self.parameters.items()}
        for group in self._groups:
            broken = [constraint for constraint in group.constraints if not constraint.holds(default)]
            if not broken:
                continue
            if group.can_list and not self._list(group):
                raise SpaceError(self._contradiction(group))
            scope = broken[0].scope or group.names
            if any(self.parameters[name].stated for name in scope):
                seen = {name: default[name] for name in scope}
                raise SpaceError(
                    f"the default configuration violates the constraint {broken[0].name!r}: {seen}"
                )
            if group.can_list:
                default.update(zip(group.names, self._list(group)[0], strict=True))
            else:
                default.update(self._repair(group, default, random.Random(0)))
        return default

    def _contradiction(self, group: _Group) -> str:
        """Which constraints exclude each other: a minimal set, found by leaving one out at a time."""
        kept = list(group.constraints)
        for constraint in group.constraints:
            fewer = tuple(one for one in kept if one is not constraint)
            if fewer and not self._solutions(group.names, fewer):
                kept.remove(constraint)
        names = " and ".join(repr(constraint.name) for constraint in kept)
        if len(kept) == 1:
            return f"the space is empty: no configuration meets the constraint {names}"
        return f"the space is empty: the constraints {names} exclude each other"


def _on_places(
    constraint: Constraint, scope: tuple[str, ...], domains: Mapping[str, tuple[Value, ...]]
) -> object:
    def test(*places: int) -> bool:
        values = {name: domains[name][place] for name, place in zip(scope, places, strict=True)}
        return constraint.holds(values)

    return test


def _bound(name: str, parameter: Parameter, names: Collection[str]) -> Parameter:
    if not isinstance(parameter, Conditional):
        return parameter
    within = name[: name.rfind(".") + 1]
    return Conditional([one.bound_to(names, within) for one in parameter.conditions], parameter.inner)
