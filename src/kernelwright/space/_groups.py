"""Groups: parameters that constraints tie to one another; what is in different groups is independent."""

from __future__ import annotations

import math
import random
from abc import ABC
from abc import abstractmethod
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain
from kernelwright.space._parameters import same
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Activity
from kernelwright.space._presence import settle

#: A group's configurations are listed only up to this many.
MAX_ENUMERATED = 100_000
#: How many draws stand in where constraints leave no neighbour.
STAND_INS = 4
#: How many values of a parameter that a change woke are tried until one is allowed.
_WOKEN = 16


class Group(ABC):
    """Some parameters and the rules over them; configurations here hold these parameters only."""

    def __init__(self, domains: Sequence[Domain], rules: Sequence[Constraint]) -> None:
        self.domains = tuple(domains)
        self.names = tuple(domain.name for domain in domains)
        self.rules = tuple(rules)
        self.activities = tuple(rule for rule in rules if isinstance(rule, Activity))
        self.parents = frozenset(name for one in self.activities for name in one.parents)

    @abstractmethod
    def draw(self, rng: random.Random) -> Configuration:
        """One allowed configuration at random."""

    @abstractmethod
    def count(self) -> int | None:
        """How many are allowed; None where that is not known."""

    @abstractmethod
    def allows(self, configuration: Mapping[str, Value]) -> bool:
        """Whether it meets the rules, given values that are each allowed on their own."""

    @abstractmethod
    def near(self, configuration: Mapping[str, Value], rng: random.Random) -> Sequence[Configuration]:
        """The allowed changes from an allowed configuration: what becomes different, as small dicts."""

    @abstractmethod
    def listed(self) -> Iterator[Configuration] | None:
        """All allowed configurations in a fixed order; None where there are too many or a continuum."""

    @abstractmethod
    def stand_in(self, default: Configuration) -> Configuration | None:
        """What is allowed and keeps most of a default that is not, stated ones first; None: nothing is."""

    def changed(self, configuration: Mapping[str, Value], name: str) -> list[Configuration]:
        """Allowed changes of `name`, and of what it wakes or puts to sleep."""
        at = self.names.index(name)
        domain = self.domains[at]
        woken = name in self.parents
        found = []
        for value in domain.neighbours(configuration[name]):
            if not woken:
                changed = {**configuration, name: value}
                if self.allows(changed):
                    found.append({name: value})
            else:
                change = self._woken(configuration, name, value)
                if change is not None:
                    found.append(change)
        return found

    def _woken(self, configuration: Mapping[str, Value], name: str, value: Value) -> Configuration | None:
        changed = {other: configuration[other] for other in self.names}
        changed[name] = value
        woken = settle(changed, self.activities)
        if not self.allows(changed):
            for other in woken:
                options = next(one for one in self.domains if one.name == other).parameter
                for option in options.neighbours(changed[other])[:_WOKEN]:
                    tried = {**changed, other: option}
                    settle(tried, self.activities)
                    if self.allows(tried):
                        return self._difference(configuration, tried)
            return None
        # Nothing is different where settling undid the change.
        return self._difference(configuration, changed) or None

    def _difference(self, old: Mapping[str, Value], new: Mapping[str, Value]) -> Configuration:
        return {name: new[name] for name in self.names if not same(old[name], new[name])}


class Free(Group):
    """One parameter without rules."""

    def __init__(self, domain: Domain) -> None:
        super().__init__([domain], ())
        self.domain = domain
        self._changes: dict[int, list[Configuration]] = {}

    def draw(self, rng: random.Random) -> Configuration:
        """On the parameter's own scale."""
        return {self.domain.name: self.domain.parameter.sample(rng)}

    def count(self) -> int | None:
        """As many as the parameter has."""
        return self.domain.parameter.count

    def allows(self, configuration: Mapping[str, Value]) -> bool:
        """There are no rules."""
        return True

    def near(self, configuration: Mapping[str, Value], rng: random.Random) -> Sequence[Configuration]:
        """The parameter's neighbours."""
        name = self.domain.name
        place = self.domain.place(configuration[name])
        if place < 0:
            return [{name: other} for other in self.domain.parameter.neighbours(configuration[name])]
        changes = self._changes.get(place)
        if changes is None:
            others = self.domain.parameter.neighbours(configuration[name])
            changes = self._changes[place] = [{name: other} for other in others]
        return changes

    def listed(self) -> Iterator[Configuration] | None:
        """The parameter's values."""
        if self.domain.values is None:
            return None
        return ({self.domain.name: value} for value in self.domain.values)

    def stand_in(self, default: Configuration) -> Configuration | None:
        """The default is allowed."""
        return default


def tie(domains: Sequence[Domain], rules: Sequence[Constraint]) -> list[Group]:
    """Independent groups: parameters that a rule looks at are together, all others alone."""
    together = {domain.name: {domain.name} for domain in domains}
    for rule in rules:
        merged = set().union(*(together[name] for name in rule.scope or together))
        for name in merged:
            together[name] = merged
    groups: list[Group] = []
    seen: set[str] = set()
    for domain in domains:
        if domain.name in seen:
            continue
        names = together[domain.name]
        seen.update(names)
        mine = [rule for rule in rules if not names.isdisjoint(rule.scope or names)]
        members = [one for one in domains if one.name in names]
        groups.append(Tied(members, mine) if mine else Free(domain))
    return groups


def settled(domains: Sequence[Domain], rules: Sequence[Constraint]) -> Group:
    """The group that handles tied parameters best.

    Up to `MAX_ENUMERATED` combinations the constraint solver lists what is allowed. Beyond, variable
    elimination counts and draws exactly where the tables of the rules are small; what it counts to be few is
    listed after all. Rules too wide for that are left to rejection and repair.
    """
    combinations = math.prod(len(domain) for domain in domains)
    if 0 < combinations <= MAX_ENUMERATED:
        from kernelwright.space._listed import Listed
        from kernelwright.space._solver import solutions

        return Listed(domains, rules, solutions(domains, rules))
    from kernelwright.space._searched import Searched
    from kernelwright.space._tables import narrow

    # The tables get the rules that fit; those left out make this a search among what the tables allow.
    fitting = narrow(domains, rules)
    if len(fitting) == len(rules):
        return _eliminated(domains, rules)
    return Searched(domains, rules, tie(domains, fitting))


def _eliminated(domains: Sequence[Domain], rules: Sequence[Constraint]) -> Group:
    from kernelwright.space._tables import Elimination
    from kernelwright.space._tables import Tables

    tables = Tables(domains, rules)
    elimination = Elimination(tables, [domain.weights for domain in domains])
    count = elimination.count()
    if count <= MAX_ENUMERATED:
        from kernelwright.space._listed import Listed

        rows: list[Any] = elimination.rows().tolist()
        return Listed(domains, rules, [tuple(row) for row in rows])
    from kernelwright.space._eliminated import Eliminated

    return Eliminated(domains, rules, tables, elimination, count)


class Tied(Group):
    """A group whose handling is settled when it is first needed: that may cost a listing."""

    def __init__(self, domains: Sequence[Domain], rules: Sequence[Constraint]) -> None:
        super().__init__(domains, rules)
        self._made: Group | None = None

    @property
    def made(self) -> Group:
        """The group that does the work."""
        if self._made is None:
            self._made = settled(self.domains, self.rules)
        return self._made

    def draw(self, rng: random.Random) -> Configuration:
        """One allowed configuration at random."""
        return self.made.draw(rng)

    def count(self) -> int | None:
        """How many are allowed, where that is known."""
        return self.made.count()

    def allows(self, configuration: Mapping[str, Value]) -> bool:
        """By lookup once the group is settled; else by asking the rules."""
        if self._made is not None:
            return self._made.allows(configuration)
        return all(rule.holds(configuration) for rule in self.rules)

    def near(self, configuration: Mapping[str, Value], rng: random.Random) -> Sequence[Configuration]:
        """The allowed changes."""
        return self.made.near(configuration, rng)

    def listed(self) -> Iterator[Configuration] | None:
        """All allowed configurations, where they can be listed."""
        return self.made.listed()

    def stand_in(self, default: Configuration) -> Configuration | None:
        """An allowed configuration close to the default."""
        return self.made.stand_in(default)


def drawn_changes(
    group: Group, configuration: Mapping[str, Value], rng: random.Random
) -> list[Configuration]:
    """A few draws from the group as changes, where it has no neighbours."""
    found = []
    for _ in range(STAND_INS):
        drawn = group.draw(rng)
        change = {name: value for name, value in drawn.items() if not same(value, configuration[name])}
        if change and change not in found:
            found.append(change)
    return found


def unlistable() -> SpaceError:
    """The error for a space that cannot be listed."""
    return SpaceError(f"too many configurations to list (more than {MAX_ENUMERATED} or a continuum)")
