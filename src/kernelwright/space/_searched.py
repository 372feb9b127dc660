"""Searched groups: neither listed nor tabulated; points are drawn, rejected and repaired."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence

from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._domains import Domain
from kernelwright.space._groups import drawn_changes
from kernelwright.space._groups import Group
from kernelwright.space._parameters import Value
from kernelwright.space._presence import settle

#: Draws that show whether rejection is worth the time, and rejections until a walk stands in.
_PROBES = 500
_REJECTIONS = 100
_FEW_REJECTIONS = 4
_REPAIRS = 1000
_REPAIR_OPTIONS = 256
_STEPS = 8
_STEP_OPTIONS = 64


class Searched(Group):
    """A group with rules too wide to tabulate. Draws are exact while rejection finds one; else by a walk.

    `inner` are the groups that the other rules make: what is drawn from them meets those already.
    """

    def __init__(
        self, domains: Sequence[Domain], rules: Sequence[Constraint], inner: Sequence[Group]
    ) -> None:
        super().__init__(domains, rules)
        self._inner = inner
        self._by_name = {domain.name: domain for domain in domains}
        self._about = {
            name: tuple(rule for rule in rules if rule.scope is None or name in rule.scope)
            for name in self.names
        }
        self._start: Configuration | None = None
        self._rejections: int | None = None

    def draw(self, rng: random.Random) -> Configuration:
        """By rejection; where that finds nothing, the end of a random walk inside the rules."""
        if self._rejections is None:
            # Where hundreds of draws are all rejected, later ones do not wait for as many again. Found with a
            # generator of its own, so that a draw depends on nothing but the generator it is given.
            probe = random.Random(0)
            hopeless = not any(self._drawn(probe) for _ in range(_PROBES))
            self._rejections = _FEW_REJECTIONS if hopeless else _REJECTIONS
        for _ in range(self._rejections):
            drawn = self._drawn(rng)
            if drawn is not None:
                return drawn
        return self._walk(rng)

    def count(self) -> int | None:
        """Not known, unless the inner groups are empty already."""
        return 0 if any(group.count() == 0 for group in self._inner) else None

    def allows(self, configuration: Mapping[str, Value]) -> bool:
        """Whether all rules hold."""
        return all(rule.holds(configuration) for rule in self.rules)

    def near(self, configuration: Mapping[str, Value], rng: random.Random) -> Sequence[Configuration]:
        """Changes of one parameter; a few draws where none is allowed."""
        found: list[Configuration] = []
        for name, domain in self._by_name.items():
            if name in self.parents:
                found += self.changed(configuration, name)
                continue
            about = self._about[name]
            changed = dict(configuration)
            for value in domain.neighbours(configuration[name]):
                changed[name] = value
                if all(rule.holds(changed) for rule in about):
                    found.append({name: value})
        return found or drawn_changes(self, configuration, rng)

    def listed(self) -> None:
        """Too many."""
        return

    def stand_in(self, default: Configuration) -> Configuration | None:
        """What repairing the default ends at. Raises SpaceError when it ends nowhere."""
        if self.count() == 0:
            return None
        return self._repair({name: default[name] for name in self.names}, random.Random(0))

    def _drawn(self, rng: random.Random) -> Configuration | None:
        drawn = self._proposed(rng)
        return drawn if self.allows(drawn) else None

    def _proposed(self, rng: random.Random) -> Configuration:
        drawn: Configuration = {}
        for group in self._inner:
            drawn.update(group.draw(rng))
        drawn = {name: drawn[name] for name in self.names}
        settle(drawn, self.activities)
        return drawn

    def _walk(self, rng: random.Random) -> Configuration:
        if self._start is None:
            default = {name: domain.parameter.default for name, domain in self._by_name.items()}
            settle(default, self.activities)
            self._start = default if self.allows(default) else self._repair(default, random.Random(0))
        current = dict(self._start)
        for _ in range(_STEPS * len(self.names)):
            name = rng.choice(self.names)
            for value in self._some_values(name, current[name], _STEP_OPTIONS, rng):
                changed = {**current, name: value}
                settle(changed, self.activities)
                if self.allows(changed):
                    current = changed
                    break
        return current

    def _some_values(self, name: str, value: Value, limit: int, rng: random.Random) -> list[Value]:
        domain = self._by_name[name]
        options = domain.values or (*domain.parameter.neighbours(value), domain.parameter.sample(rng))
        return rng.sample(options, min(len(options), limit))

    def _repair(self, start: Configuration, rng: random.Random) -> Configuration:
        """Min-conflicts (Minton et al., 1992) from an invalid point, with random restarts."""
        blamed: Counter[str] = Counter()
        current = start
        for step in range(_REPAIRS):
            broken = [rule for rule in self.rules if not rule.holds(current)]
            if not broken:
                return current
            blamed.update(rule.name for rule in broken)
            if step % 50 == 49:
                current = self._proposed(rng)
                continue
            name = rng.choice(rng.choice(broken).scope or self.names)
            scored = []
            for value in self._some_values(name, current[name], _REPAIR_OPTIONS, rng):
                changed = {**current, name: value}
                settle(changed, self.activities)
                conflicts = sum(not rule.holds(changed) for rule in self.rules)
                scored.append((conflicts, rng.random(), changed))
            current = min(scored, key=lambda entry: entry[:2])[2]
        worst, _ = blamed.most_common(1)[0]
        raise SpaceError(
            f"no valid configuration was found for {', '.join(self.names)}; the constraint {worst!r} was "
            "violated most often: loosen it, or state a valid default for each parameter"
        )
