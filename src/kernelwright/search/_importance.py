"""Which parameters mattered: each one's share of the variance of the ranks, with interval and p-value.

The scores of a search are skewed and have long tails, so they are ranked (Conover and Iman 1981). Searches do
not draw at random: what they liked early is over-represented, and parameters that were good together were
tried together. Hence no marginal means, which would blame one parameter for another: all main effects are
fitted at once, as levels of each parameter (`rank ~ parameter 1 + parameter 2 + …`). A parameter's share is
the variance of its fitted effects over its levels, each level counted once, in proportion to what all effects
and the residual have: the first-order Sobol' index (1993) of the additive model, as if all values had been
tried equally often. What the estimates' own error adds to such a variance is taken off (σ² tr(C Cov β)), so
that parameters of many values gain nothing.

The p-value permutes the residuals of the fit without the parameter (Freedman and Lane 1983), which holds for
correlated parameters; over the parameters, Holm's procedure (1979) keeps the chance of any false claim. The
interval is Student's of a jackknife that leaves out groups of evaluations (Kott 2001): a bootstrap would
repeat evaluations and so take noise for effect.

What this cannot tell: effects that two parameters only have together (they are in `rest`, with noise), and
which of two parameters did it that always moved together (they share it, and neither is proven).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import NoScoreError
from kernelwright.search import _columns
from kernelwright.search._columns import Column

if TYPE_CHECKING:
    from kernelwright.search._evaluation import Evaluation
    from kernelwright.search._result import SearchResult

Floats = NDArray[np.float64]

_GROUPS = 20
#: Student's quantile for a 95% interval with the groups' degrees of freedom.
_QUANTILE = 2.093
#: Levels of a parameter, tried from the finest until there are enough evaluations to fit them.
_LEVELS = (8, 6, 4, 3, 2)
_PER_COEFFICIENT = 2


@dataclass(frozen=True)
class Level:
    """A value of a parameter, or a range of them.

    `effect` is what it does to the rank, the other parameters being equal, as a share of all ranks: -0.2 is a
    fifth of the candidates better than the parameter's average. `count` is how often it was scored, `median`
    the median of those scores, whatever else they had.
    """

    name: str
    effect: float
    count: int
    median: float


@dataclass(frozen=True)
class Importance:
    """One parameter: its share of the variance of ranks (0 to 1), 95% interval, p-value (of any effect)."""

    parameter: str
    share: float
    interval: tuple[float, float]
    p: float
    levels: tuple[Level, ...]

    @property
    def matters(self) -> bool:
        """Whether an effect is proven at the 5% level, all parameters taken together."""
        return self.p <= 0.05

    @property
    def best(self) -> Level:
        """The level with the best effect."""
        return self.levels[0]


@dataclass(frozen=True)
class Importances:
    """All parameters that varied, the most important first; `evaluations` is how many were used.

    `rest` is the share that no parameter explains alone: what they do together, and noise.
    """

    parameters: tuple[Importance, ...]
    rest: float
    evaluations: int


def parameter_importance(
    result: SearchResult, *, objective: int = 0, seed: int = 0, permutations: int = 999
) -> Importances:
    """The importance of each parameter for one objective, from the candidates that have scores.

    Raises NoScoreError where fewer than 10 candidates have scores, too few for the number of parameters, or
    where nothing varied: neither scores nor parameters.
    """
    used = list(result.ranked)
    if len(used) < 10:
        raise NoScoreError(f"importance needs at least 10 candidates with scores; there are {len(used)}")
    used.sort(key=lambda one: one.number)
    costs = np.array([result.costs(one)[objective] for one in used])
    ranks = _ranks(costs)
    total = float(((ranks - ranks.mean()) ** 2).sum())
    if total == 0.0:
        raise NoScoreError(f"all {len(used)} scores are equal: no parameter can matter; see `diagnose`")
    fitted = _fit_for(used)
    generator = np.random.default_rng(seed)
    *shares, rest = fitted.shares(ranks)
    errors = _jackknife(fitted, ranks, generator)
    tails = _holm(fitted.p_values(ranks, permutations, generator))
    values = np.array([result.values(one)[objective] for one in used])
    made = [
        Importance(
            column.name,
            max(share, 0.0),
            (max(share - _QUANTILE * error, 0.0), min(max(share + _QUANTILE * error, 0.0), 1.0)),
            p,
            _levels(column, effects, values),
        )
        for column, share, error, p, effects in zip(
            fitted.columns, shares, errors, tails, fitted.effects(ranks), strict=True
        )
    ]
    made.sort(key=lambda one: (-one.share, one.p, one.parameter))
    return Importances(tuple(made), rest, len(used))


class _Fit:
    """The additive model of the columns, by least squares."""

    def __init__(self, columns: Sequence[Column], rows: NDArray[np.intp] | None = None) -> None:
        self.columns = list(columns)
        codes = [column.codes if rows is None else column.codes[rows] for column in columns]
        self.size = len(codes[0])
        # Every level has a column; the solution of least norm takes care of what is redundant.
        self._blocks = [
            np.equal.outer(code, np.arange(len(column.levels))).astype(np.float64)
            for code, column in zip(codes, columns, strict=True)
        ]
        self._one = np.ones((self.size, 1))
        design = np.hstack([self._one, *self._blocks])
        self._inverse: Floats = np.linalg.pinv(design.T @ design, hermitian=True, rcond=1e-9)
        self._design = design
        self._freedom = max(self.size - round(float(np.trace(self._inverse @ (design.T @ design)))), 1)

    def effects(self, ranks: Floats) -> list[Floats]:
        """Each column's effect of each level on the rank, around the mean of its levels."""
        coefficients = self._inverse @ (self._design.T @ ranks)
        found = []
        for own in self._places():
            part = coefficients[own]
            found.append(part - part.mean())
        return found

    def shares(self, ranks: Floats) -> list[float]:
        """Each column's share, then what is left; a share below zero is less than chance would give."""
        residual = ranks - self._design @ (self._inverse @ (self._design.T @ ranks))
        error = float(residual @ residual) / self._freedom
        found = []
        for own, effects in zip(self._places(), self.effects(ranks), strict=True):
            size = len(effects)
            centring = np.eye(size) - 1.0 / size
            noise = error * float(np.trace(centring @ self._inverse[own, own] @ centring))
            found.append((float(effects @ effects) - noise) / size)
        total = sum(max(one, 0.0) for one in found) + error
        return [one / total for one in (*found, error)] if total else [*(0.0 for _ in found), 1.0]

    def _places(self) -> list[slice]:
        """Where each column's levels are among the coefficients."""
        ends = [1, *(1 + int(end) for end in np.cumsum([len(column.levels) for column in self.columns]))]
        return [slice(start, end) for start, end in itertools.pairwise(ends)]

    def p_values(self, ranks: Floats, permutations: int, generator: np.random.Generator) -> list[float]:
        """Of each column, by permuting the residuals of the fit without it."""
        found = []
        full = _basis([self._one, *self._blocks])
        for place in range(len(self._blocks)):
            basis = _basis([self._one, *self._blocks[:place], *self._blocks[place + 1 :]])
            without = basis @ (basis.T @ ranks)
            residual = ranks - without
            observed = _gain(full, basis, ranks[:, None])[0]
            shuffled = np.stack([generator.permutation(residual) for _ in range(permutations)], axis=1)
            drawn = _gain(full, basis, without[:, None] + shuffled)
            # Rounding must not decide between equals.
            found.append(float((1 + np.count_nonzero(drawn >= observed * (1 - 1e-9))) / (permutations + 1)))
        return found


def _gain(full: Floats, reduced: Floats, series: Floats) -> Floats:
    """The F statistic, up to a factor, of each series: what a column explains over what is left."""
    total = (series**2).sum(axis=0)
    explained = ((full.T @ series) ** 2).sum(axis=0)
    without = ((reduced.T @ series) ** 2).sum(axis=0)
    left: Floats = np.maximum(total - explained, 1e-12 * np.maximum(total, 1.0))
    gained: Floats = (explained - without) / left
    return gained


def _fit_for(used: Sequence[Evaluation]) -> _Fit:
    """The finest fit that the number of evaluations allows."""
    configurations = [one.configuration for one in used]
    need = 0
    for most in _LEVELS:
        found = _columns.columns(configurations, most=most, least=2)
        if not found:
            raise NoScoreError("no parameter has two values that were each scored twice: nothing to compare")
        coefficients = 1 + sum(len(column.levels) - 1 for column in found)
        need = _PER_COEFFICIENT * coefficients
        if len(used) >= need:
            return _Fit(found)
    raise NoScoreError(
        f"importance of {len(found)} parameters needs about {need} candidates with scores; "
        f"there are {len(used)}"
    )


def _jackknife(fitted: _Fit, ranks: Floats, generator: np.random.Generator) -> list[float]:
    """The standard error of each share, from fits that leave out a group of evaluations each."""
    count = min(_GROUPS, fitted.size)
    group = generator.permutation(np.arange(fitted.size) % count)
    replicates = []
    for number in range(count):
        rows = np.flatnonzero(group != number)
        replicates.append(_Fit(fitted.columns, rows).shares(ranks[rows])[:-1])
    spread = np.array(replicates)
    variance = (count - 1) / count * ((spread - spread.mean(axis=0)) ** 2).sum(axis=0)
    return [float(error) for error in np.sqrt(variance)]


def _levels(column: Column, effects: Floats, values: Floats) -> tuple[Level, ...]:
    """The levels, the best first."""
    found = []
    for number, name in enumerate(column.levels):
        mine = values[column.codes == number]
        found.append(Level(name, float(effects[number]) / len(values), len(mine), float(np.median(mine))))
    return tuple(sorted(found, key=lambda level: level.effect))


def _basis(blocks: Sequence[Floats]) -> Floats:
    """Orthonormal columns that span those of the blocks; fewer where they depend on each other."""
    left, sizes, _ = np.linalg.svd(np.hstack(blocks), full_matrices=False)
    basis: Floats = left[:, sizes > 1e-9 * sizes[0]]
    return basis


def _ranks(costs: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = rankdata(costs).astype(np.float64)
    return ranks


def _holm(tails: Sequence[float]) -> list[float]:
    """p-values such that the chance of any false one among them stays at the level."""
    order = np.argsort(tails)
    adjusted = [0.0] * len(tails)
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, tails[index] * (len(tails) - place)))
        adjusted[index] = highest
    return adjusted
