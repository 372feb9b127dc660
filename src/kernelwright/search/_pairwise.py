"""Model-based search: a designed start, then a Gaussian process that says where the best may be."""

from __future__ import annotations

import math
import random

import numpy as np
from numpy.typing import NDArray

from kernelwright.search._candidates import Candidates
from kernelwright.search._encoding import Encoding
from kernelwright.search._gp import Doubles
from kernelwright.search._gp import PairwiseProcess
from kernelwright.search._moves import Moves
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Proposal
from kernelwright.search._start import SAMPLE
from kernelwright.search._start import Started
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space

#: Size of the first batch, width of the confidence bound, and share of the kernel's additive part.
FIRST, BETA, ADDITIVE = 2, 5.0, 0.3
#: The model is made anew each time the results have grown by this factor.
GROWTH = 1.25
#: So many open proposals, the latest, are taken to have turned out as the model expects.
MOST_OPEN = 64
#: Neighbours of this many of the best are candidates where the space cannot be listed.
LEADERS = 3
#: How much of a failure counts as a middling result; the rest as what the model expects there.
_FAILED = 0.5
#: Failures that say nothing about the configuration.
BLAMELESS = frozenset({"worker_lost", "unpicklable", "wrong_arity", "cancelled"})


class PairwiseGP(Started):
    """A designed start, then a Gaussian process over single parameters and their pairs.

    Scores count by rank, so that a few very slow configurations do not hide what tells the fast ones apart:
    the square root of the rank, which spreads the best. What is asked next has the lowest confidence bound
    (Cox and John, 1992) of all candidates. Candidates are the whole space where it can be listed and is not
    large, else a sample and the neighbours of the best. What is asked and not told yet counts as if it had
    turned out as the model expects. With several objectives, each proposal weighs them at random (ParEGO:
    Knowles, 2006).

    A failure counts as half of what the model expects there and half of a middling result: it is evaluated no
    more, and its surroundings lose some of their promise, but where failures have no pattern, not all of it.
    One that the configuration is not to blame for (`worker_lost`) counts as nothing.

    Args:
        start: size of the first batch.
        sample: how many valid configurations the batch is chosen from.
        default: whether it begins with the default configuration; None: where a parameter states one.
        beta: how many standard deviations below the mean the confidence bound is.
        additive: share of the kernel's additive part.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        objectives: int = 1,
        start: int = FIRST,
        sample: int = SAMPLE,
        default: bool | None = None,
        beta: float = BETA,
        additive: float = ADDITIVE,
    ) -> None:
        super().__init__(space, seed=seed, objectives=objectives, start=start, sample=sample, default=default)
        self._beta = beta
        self._additive = additive
        self._moves = Moves(space)
        self._encoding = Encoding(space)
        self._candidates: Candidates | None = None
        self._model: PairwiseProcess | None = None
        self._told: list[str] = []
        self._due = max(start, 2)
        self._leader: str | None = None

    @property
    def modelled(self) -> bool:
        """Whether proposals after the first batch come from the model."""
        return True

    def _propose(self, rng: random.Random) -> Proposal | None:
        first = self._first()
        if first is not None:
            return first
        model = self._ready()
        assert self._candidates is not None
        told, variance = len(model.rows), model.variance
        rows = [row for row in map(self._candidates.row, self.pending.values()) if row is not None]
        for row in rows[-MOST_OPEN:]:
            model.condition(row)
        promise = self._promise(model, rng)
        model.forget(told, variance)
        promise[model.rows + rows] = np.inf
        row = int(np.argmin(promise))
        if promise[row] < np.inf:
            return Proposal(dict(self._candidates.configurations[row]), "model")
        drawn = self._draw_new(rng)
        return None if drawn is None else Proposal(drawn, "random")

    def _learn(self, configuration: Configuration, scores: tuple[float, ...]) -> None:
        self._take_note(configuration)

    def _learn_failure(self, configuration: Configuration, failure: Failure) -> None:
        self._take_note(configuration)

    def _take_note(self, configuration: Configuration) -> None:
        """Look around the best, where it is new, and weigh the parameters again, where it is time."""
        self._told.append(key(configuration))
        if not self.modelled:
            return
        model = self._ready()
        assert self._candidates is not None
        if not self._candidates.whole and self._best != self._leader:
            self._leader = self._best
            leaders = sorted(self.scores, key=self.scores.__getitem__)[:LEADERS]
            for leader in leaders:
                steps = self._moves.steps(self._seen[leader], random.Random(f"{self.seed}/{leader}"))
                self._extend(model, list(steps))
        told = len(self._told)
        if told < self._due or not self.vectors:
            return
        self._due = math.ceil(told * GROWTH)
        weights = _weights(self.objectives, random.Random(f"{self.seed}/fit/{told}"))
        model.fit(self._observed(model, weights))

    def _ready(self) -> PairwiseProcess:
        """The model, with all that was told taken in, in that order: what is open leaves no trace in it."""
        if self._candidates is None or self._model is None:
            self._candidates = Candidates(self.space, self._encoding, f"{self.seed}/pool")
            self._model = PairwiseProcess(self._encoding, self._candidates.points, additive=self._additive)
        for name in self._told[len(self._model.rows) :]:
            configuration = self._seen[name]
            row = self._candidates.row(configuration)
            if row is None:
                self._extend(self._model, [configuration])
                row = self._candidates.row(configuration)
            assert row is not None
            self._model.condition(row)
        return self._model

    def _extend(self, model: PairwiseProcess, configurations: list[Configuration]) -> None:
        assert self._candidates is not None
        points = self._candidates.add(configurations)
        if points.count:
            model.extend(points)

    def _promise(self, model: PairwiseProcess, rng: random.Random) -> NDArray[np.float32]:
        observed = self._observed(model, _weights(self.objectives, rng))
        deviation = np.sqrt(np.maximum(model.variance, 1e-9))
        return np.asarray(model.mean(observed) - np.float32(self._beta) * deviation, np.float32)

    def _observed(self, model: PairwiseProcess, weights: tuple[float, ...]) -> Doubles:
        """What each row of the model is taken to have scored: mean zero, deviation one, low is good."""
        values = np.zeros(len(model.rows))
        scored = [place for place, name in enumerate(self._told) if name in self.vectors]
        if not scored:
            return values
        scores = np.array([self.vectors[self._told[place]] for place in scored])
        values[scored] = np.sqrt(_ranked(scores, weights))
        middle = float(np.median(values[scored]))
        mean, spread = float(values[scored].mean()), float(values[scored].std())
        spread = spread if spread > 1e-9 else 1.0
        values[scored] = (values[scored] - mean) / spread
        others = np.setdiff1d(np.arange(len(values)), scored)
        if len(others):
            values[others] = model.expected(others, values)
            failed = [place for place, name in enumerate(self._told) if self._blamed(name)]
            values[failed] = _FAILED * (middle - mean) / spread + (1.0 - _FAILED) * values[failed]
        return values

    def _blamed(self, name: str) -> bool:
        """Whether a configuration failed, and it was the configuration that did."""
        return name in self.failures and self.failures[name].kind not in BLAMELESS


def _ranked(scores: Doubles, weights: tuple[float, ...]) -> Doubles:
    """Ranks from zero, the earlier of equals first; for several objectives of the worst weighted rank."""
    ranks = np.argsort(np.argsort(scores, axis=0, kind="stable"), axis=0, kind="stable").astype(float)
    if scores.shape[1] == 1:
        return ranks[:, 0]
    weighted = ranks * np.array(weights)
    blend = weighted.max(1) + 0.05 * weighted.sum(1)
    return np.argsort(np.argsort(blend, kind="stable"), kind="stable").astype(float)


def _weights(objectives: int, rng: random.Random) -> tuple[float, ...]:
    """Random weights of the objectives that add up to one, all such equally likely."""
    if objectives == 1:
        return (1.0,)
    drawn = [-math.log(1.0 - rng.random()) for _ in range(objectives)]
    return tuple(one / sum(drawn) for one in drawn)
