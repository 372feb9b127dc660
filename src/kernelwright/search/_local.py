"""Annealing after a designed start, inside the constraints."""

from __future__ import annotations

import math
import random
import statistics

from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space


class LocalSearch(Optimizer):
    """The default configuration, a spread-out first batch, then annealing over single changes.

    The first batch is the default, the most central configuration, and then by maximin distance (Johnson,
    Moore and Ylvisaker, 1990) from a sample of valid ones: the biggest single gain on recorded spaces. Then a
    current configuration is changed in one parameter at a time; a worse result is accepted with probability
    exp(−Δ / temperature), on the scale of the scores seen so far (Kirkpatrick et al., 1983). When all its
    neighbours were seen, the search goes on from the best configuration that has some left, else from a
    random one. Failures are only avoided.

    Args:
        start: size of the first batch, the default configuration included.
        sample: how many valid configurations the batch is chosen from.
        temperature: at first, in units of the scores' spread (median minus best); zero climbs hills only.
        cooling: factor on the temperature after each score.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        start: int = 8,
        sample: int = 500,
        temperature: float = 0.15,
        cooling: float = 0.9,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives)
        self._temperature = temperature
        self._cooling = cooling
        self._start = self._design(start, sample)
        self._current: Configuration | None = None
        self._current_score = math.inf

    def _propose(self, rng: random.Random) -> Proposal | None:
        for origin, configuration in self._start:
            if self._is_new(configuration):
                return Proposal(configuration, origin)
        for place in self._places():
            for neighbour in self.space.neighbours(place, rng):
                if self._is_new(neighbour):
                    return Proposal(neighbour, "local")
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random")

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        score = scores[0]
        if score <= self._current_score or self._accepts(key(configuration), score - self._current_score):
            self._current, self._current_score = configuration, score

    def _accepts(self, name: str, loss: float) -> bool:
        if any(key(configuration) == name for _, configuration in self._start):
            return False
        spread = statistics.median(self.scores.values()) - min(self.scores.values())
        temperature = (
            self._temperature * spread * self._cooling ** max(len(self.scores) - len(self._start), 0)
        )
        if temperature <= 0:
            return False
        return random.Random(f"{self.seed}/accept/{name}").random() < math.exp(-loss / temperature)

    def _places(self) -> list[Configuration]:
        ranked = sorted(self.scores, key=self.scores.__getitem__)
        places = [self._seen[name] for name in ranked]
        return places if self._current is None else [self._current, *places]

    def _design(self, size: int, sample: int) -> list[tuple[str, Configuration]]:
        rng = random.Random(f"{self.seed}/design")
        count = self.space.count()
        if count is not None and count <= sample:
            pool = list(self.space.configurations())
        else:
            pool = [self.space.sample(rng) for _ in range(sample)]
        rng.shuffle(pool)
        middle = [statistics.fmean(column) for column in zip(*map(self.space.encode, pool), strict=True)]
        off = [sum(abs(a - b) for a, b in zip(self.space.encode(one), middle, strict=True)) for one in pool]
        chosen = [("default", self.space.default)]
        if size > 1:
            chosen.append(("designed", pool[min(range(len(pool)), key=off.__getitem__)]))
        gaps = [min(self.space.distance(one, known) for _, known in chosen) for one in pool]
        while len(chosen) < size:
            widest = max(range(len(pool)), key=gaps.__getitem__)
            if gaps[widest] <= 0:
                break
            chosen.append(("designed", pool[widest]))
            for index, one in enumerate(pool):
                gaps[index] = min(gaps[index], self.space.distance(one, pool[widest]))
        return chosen
