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
        #: Whether some are there only where others have certain values: no single step changes those.
        self.conditional = any(isinstance(one, Conditional) for one in space.parameters.values())

    def steps(self, configuration: Configuration, rng: random.Random) -> Iterator[Configuration]:
        """Configurations that differ in one parameter, in random order; each parameter's closest come early.

        Which ones they are depends on the configuration only. In spaces with conditional parameters, or with
        equations, `jump` gets where these do not.
        """
        names = list(self.names)
        rng.shuffle(names)
        for name in names:
            values = list(self._space.parameters[name].neighbours(configuration[name]))
            rng.shuffle(values)
            for value in values:
                changed = {**configuration, name: value}
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

    def cross(
        self, left: Configuration, right: Configuration, rng: random.Random, share: float = 0.5
    ) -> Configuration:
        """Each parameter from `right` with the probability `share`, else from `left`; mended towards `left`."""
        child = {name: right[name] if rng.random() < share else value for name, value in left.items()}
        return self.mend(child, left, rng)

    def mutate(
        self,
        configuration: Configuration,
        rate: float,
        rng: random.Random,
        anchor: Configuration | None = None,
    ) -> Configuration:
        """Each parameter changed with the probability `rate`: to a neighbouring value, or one time in four to any.

        A draw of any value is what knocks parameters out. Mended towards `anchor`, by default the
        configuration itself.
        """
        child = dict(configuration)
        for name in self.names:
            if rng.random() < rate:
                parameter = self._space.parameters[name]
                near = parameter.neighbours(child[name]) if rng.random() < 0.75 else ()
                child[name] = rng.choice(near) if near else parameter.sample(rng)
        return self.mend(child, configuration if anchor is None else anchor, rng)

    def mend(self, configuration: Configuration, anchor: Configuration, rng: random.Random) -> Configuration:
        """A valid configuration between an invalid one and a valid `anchor`.

        Parameters are set to the anchor's, one at a time in random order, until all constraints hold. Values
        must be ones that the parameters have.
        """
        mended = dict(configuration)
        left: list[str] | None = None
        while self._space.violated(mended):
            if left is None:
                left = _differing(mended, anchor)
                rng.shuffle(left)
            name = left.pop()
            mended[name] = anchor[name]
        return mended


def _differing(one: Mapping[str, Value], other: Mapping[str, Value]) -> list[str]:
    return [
        name for name, value in one.items() if type(value) is not type(other[name]) or value != other[name]
    ]
