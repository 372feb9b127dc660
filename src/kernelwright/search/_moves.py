"""Moves inside a space: one parameter changed, two configurations crossed, an invalid one mended."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from kernelwright.space import Conditional
from kernelwright.space import Configuration
from kernelwright.space import Space
from kernelwright.space import Value


class Moves:
    """What a search does with the configurations of one space. All that it returns is valid.

    `step` goes parameter by parameter, so that one with many values is not changed more often than others,
    and looks at constraints one candidate at a time: a search takes the first that is new.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        #: Those with a choice.
        self.names = tuple(name for name, one in space.parameters.items() if one.count != 1)
        self._conditional = {
            name: one for name, one in space.parameters.items() if isinstance(one, Conditional)
        }

    def steps(self, configuration: Configuration, rng: random.Random) -> Iterator[Configuration]:
        """Valid configurations that differ in one parameter and in what is there only because of it.

        In random order; which ones they are depends on the configuration only. Constraints such as equations
        can leave none: then `jump` gets on.
        """
        names = list(self.names)
        rng.shuffle(names)
        for name in names:
            values = list(self._space.parameters[name].neighbours(configuration[name]))
            rng.shuffle(values)
            for value in values:
                changed = self._settled({**configuration, name: value})
                if not self._space.violated(changed):
                    yield changed

    def step(
        self, configuration: Configuration, rng: random.Random, wanted: Callable[[Configuration], bool]
    ) -> Configuration | None:
        """The first of `steps` that is wanted; None when none is."""
        return next((one for one in self.steps(configuration, rng) if wanted(one)), None)

    def jump(self, configuration: Configuration, rng: random.Random) -> Configuration:
        """One parameter as in a random configuration, and as many others with it as validity asks for."""
        other = self._space.sample(rng)
        differ = _differing(configuration, other)
        if not differ:
            return other
        name = rng.choice(differ)
        return self.mend({**configuration, name: other[name]}, other, rng)

    def cross(self, left: Configuration, right: Configuration, rng: random.Random) -> Configuration:
        """Each parameter from one or the other, as likely; mended towards `left`."""
        child = {name: right[name] if rng.random() < 0.5 else value for name, value in left.items()}
        return self.mend(child, left, rng)

    def mutate(self, configuration: Configuration, rate: float, rng: random.Random) -> Configuration:
        """Each parameter changed with probability `rate`: to a neighbouring value, one time in four to any.

        A draw of any value is what knocks parameters out. Mended towards the configuration itself.
        """
        child = dict(configuration)
        for name in self.names:
            if rng.random() < rate:
                parameter = self._space.parameters[name]
                near = parameter.neighbours(child[name]) if rng.random() < 0.75 else ()
                child[name] = rng.choice(near) if near else parameter.sample(rng)
        return self.mend(child, configuration, rng)

    def mend(self, configuration: Configuration, anchor: Configuration, rng: random.Random) -> Configuration:
        """A valid configuration between an invalid one and a valid `anchor`.

        Conditional parameters are put in or left out first. Then parameters are set to the anchor's, one at a
        time in random order, until all constraints hold. Values must be ones that the parameters have.
        """
        mended = self._settled(dict(configuration))
        left: list[str] | None = None
        while self._space.violated(mended):
            if left is None:
                left = _differing(mended, anchor)
                rng.shuffle(left)
            name = left.pop()
            mended[name] = anchor[name]
        return mended

    def _settled(self, configuration: Configuration) -> Configuration:
        """The same dict, changed so that conditional parameters are there exactly where they should be."""
        # Once more for each level that conditions are nested.
        for _ in self._conditional:
            changed = False
            for name, parameter in self._conditional.items():
                active = all(one.is_met_by_present(configuration) for one in parameter.conditions)
                if active == (configuration[name] is None) and not parameter.inner.contains(None):
                    configuration[name] = parameter.inner.default if active else None
                    changed = True
                elif not active and configuration[name] is not None:
                    configuration[name] = None
                    changed = True
            if not changed:
                break
        return configuration


def _differing(one: Mapping[str, Value], other: Mapping[str, Value]) -> list[str]:
    return [
        name for name, value in one.items() if type(value) is not type(other[name]) or value != other[name]
    ]
