"""A Gaussian process that sees parameters one by one and in pairs, kept ready for a pool of candidates.

The kernel is `a · mean(k_j) + (1 − a) · mean(k_j · k_l, j < l)` with k_j = exp(−w_j · distance_j): additive
and pairwise terms of a functional ANOVA (Durrande, Ginsbourger and Roustant, 2012; Duvenaud, Nickisch and
Rasmussen, 2011). A product over all parameters would call two configurations unlike as soon as one parameter
differs much; here each pair of parameters that agrees says something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg import solve_triangular

from kernelwright.search._encoding import Encoding
from kernelwright.search._encoding import Floats
from kernelwright.search._encoding import Points

Doubles = NDArray[np.float64]
_Real = TypeVar("_Real", np.float32, np.float64)

#: Below this, a variance is rounding.
_TINY = 1e-6
#: So many candidates at a time, for the processor's cache.
_BLOCK = 1024


class PairwiseProcess:
    """A Gaussian process of unit variance over a pool of candidates.

    Conditioning on a row of the pool costs (rows so far) × (pool) operations, and so does the posterior of
    the whole pool: of `L⁻¹ · K(rows, pool)`, with `L` the Cholesky factor over the rows, only the new row is
    worked out. What was observed there is given with each question, so a row may be conditioned on before its
    value is known.

    Args:
        encoding: how alike configurations are.
        pool: the candidates.
        additive: the share `a` of the additive terms.
        nugget: the variance of noise, as a fraction of the signal's.
        weight: the median of the log-normal prior of the weights `w_j`, and where they start.
        spread: its standard deviation, in units of the logarithm.
    """

    def __init__(
        self,
        encoding: Encoding,
        pool: Points,
        *,
        additive: float = 0.4,
        nugget: float = 1e-3,
        weight: float = 0.5,
        spread: float = 1.0,
    ) -> None:
        self.encoding = encoding
        self.pool = pool
        self.additive = 1.0 if encoding.width < 2 else additive
        self.nugget = nugget
        self.weights: Doubles = np.full(encoding.width, weight)
        self._prior = (np.log(weight), spread)
        self._tables = self._similarities()
        self.rows: list[int] = []
        self._factor: Doubles = np.zeros((0, 0))
        self._solved: Floats = np.zeros((0, pool.count), np.float32)
        self.variance: Floats = np.ones(pool.count, np.float32)

    def condition(self, row: int) -> None:
        """Take in one more row of the pool."""
        size = len(self.rows)
        self._reserve(size + 1)
        across = self._solved[:size, row].copy()
        left = max(1.0 + self.nugget - float(across @ across), _TINY)
        self._factor[size, :size] = across
        self._factor[size, size] = np.sqrt(left)
        fresh = self._covariance(self.pool.take([row]), self.pool)[0]
        if size:
            fresh -= across @ self._solved[:size]
        fresh /= np.float32(np.sqrt(left))
        self._solved[size] = fresh
        # A new array: `forget` goes back to the old one.
        self.variance = self.variance - fresh * fresh
        self.rows.append(row)

    def forget(self, size: int, variance: Floats) -> None:
        """Go back to the first `size` rows; `variance` is what it was with them."""
        self.rows = self.rows[:size]
        self.variance = variance

    def mean(self, observed: Doubles) -> Floats:
        """The posterior mean of the pool for what was observed at the rows (rows, or cases × rows)."""
        size = len(self.rows)
        if size == 0:
            return np.zeros((*observed.shape[:-1], self.pool.count), np.float32)
        half = solve_triangular(self._factor[:size, :size], observed.T, lower=True, check_finite=False)
        return np.asarray(half.T, np.float32) @ self._solved[:size]

    def expected(self, places: Sequence[int] | NDArray[np.intp], observed: Doubles) -> Doubles:
        """The mean at some of the rows (by their place among them), given what was observed at the others."""
        size = len(self.rows)
        factor = self._factor[:size, :size]
        kernel = factor @ factor.T
        others = np.setdiff1d(np.arange(size), places)
        if len(others) == 0:
            return np.zeros(len(places))
        known = np.linalg.solve(kernel[np.ix_(others, others)], observed[others])
        return np.asarray(kernel[np.ix_(np.asarray(places), others)] @ known, np.float64)

    def scale(self, observed: Doubles) -> float:
        """The standard deviation of the signal that makes the observed values most likely."""
        size = len(self.rows)
        half = solve_triangular(self._factor[:size, :size], observed, lower=True, check_finite=False)
        return float(np.sqrt(max(half @ half / size, _TINY)))

    def extend(self, points: Points) -> None:
        """Add candidates at the end of the pool."""
        size = len(self.rows)
        self.pool = self.pool.extended(points)
        self.variance = np.concatenate([self.variance, np.ones(points.count, np.float32)])
        wider = np.zeros((len(self._solved), self.pool.count), np.float32)
        wider[:, : -points.count] = self._solved
        self._solved = wider
        if size:
            cross = self._covariance(self.pool.take(self.rows), points)
            fresh = solve_triangular(self._factor[:size, :size], cross, lower=True, check_finite=False)
            self._solved[:size, -points.count :] = fresh
            self.variance[-points.count :] -= np.einsum("ij,ij->j", fresh, fresh).astype(np.float32)

    def fit(self, observed: Doubles) -> None:
        """Move each weight by a factor of two where that makes what was observed at the rows likelier."""
        logs = np.log(self.weights)
        points = self.pool.take(self.rows)
        far = [self.encoding.distances(column, points, points) for column in range(self.encoding.width)]
        near = [np.exp(-weight * one) for weight, one in zip(self.weights, far, strict=True)]
        best = self._likelihood(near, observed, logs)
        for column in range(self.encoding.width):
            for step in (np.log(2), -np.log(2)):
                moved = logs.copy()
                moved[column] += step
                kept, near[column] = near[column], np.exp(-np.exp(moved[column]) * far[column])
                likelihood = self._likelihood(near, observed, moved)
                if likelihood > best:
                    best, logs = likelihood, moved
                    break
                near[column] = kept
        if not np.array_equal(np.exp(logs), self.weights):
            self.weights = np.exp(logs)
            self.rebuild()

    def rebuild(self) -> None:
        """Work everything out again for the weights and rows as they are."""
        rows = self.rows
        self._tables = self._similarities()
        points = self.pool.take(rows)
        square = self._covariance(points, points).astype(np.float64) + self.nugget * np.eye(len(rows))
        factor = np.linalg.cholesky(square)
        self._factor = np.zeros((0, 0))
        self._solved = np.zeros((0, self.pool.count), np.float32)
        self._reserve(len(rows))
        self._factor[: len(rows), : len(rows)] = factor
        inverse = solve_triangular(factor, np.eye(len(rows)), lower=True, check_finite=False)
        inverse = inverse.astype(np.float32)
        for start in range(0, self.pool.count, _BLOCK):
            block = slice(start, min(start + _BLOCK, self.pool.count))
            self._solved[: len(rows), block] = inverse @ self._covariance(points, self.pool.slice(block))
        solved = self._solved[: len(rows)]
        self.variance = 1 - np.einsum("ij,ij->j", solved, solved)

    def _likelihood(self, near: Sequence[NDArray[np.floating]], observed: Doubles, logs: Doubles) -> float:
        """The log of the marginal likelihood, the signal's variance at its best, times the prior."""
        size = len(observed)
        alone, squares = np.zeros((size, size)), np.zeros((size, size))
        for one in near:
            alone += one
            squares += one * one
        kernel = self._combined(alone, squares) + self.nugget * np.eye(size)
        factor = np.linalg.cholesky(kernel)
        fit = max(float(observed @ cho_solve((factor, True), observed, check_finite=False)) / size, 1e-12)
        middle, spread = self._prior
        prior = 0.5 * float((((logs - middle) / spread) ** 2).sum())
        return -0.5 * size * float(np.log(fit)) - float(np.log(np.diag(factor)).sum()) - prior

    def _similarities(self) -> list[Floats | None]:
        return [
            None if table is None else np.exp(-np.float32(weight) * table)
            for weight, table in zip(self.weights, self.encoding.tables, strict=True)
        ]

    def _covariance(self, left: Points, right: Points) -> Floats:
        """left × right."""
        shape = (left.count, right.count)
        alone, squares, near = (np.zeros(shape, np.float32) for _ in range(3))
        for column, table in enumerate(self._tables):
            if table is not None:
                rows, places = table[left.places[column]], right.places[column]
                assert places is not None
                # "clip" spares a copy that the default, "raise", makes; all places are inside.
                np.take(rows, places, axis=1, out=near, mode="clip")
            else:
                far = self.encoding.distances(column, left, right)
                np.exp(-np.float32(self.weights[column]) * far, out=near)
            alone += near
            near *= near
            squares += near
        return self._combined(alone, squares)

    def _combined(self, alone: NDArray[_Real], squares: NDArray[_Real]) -> NDArray[_Real]:
        """The kernel from the sum of the terms and the sum of their squares; takes both over."""
        width = self.encoding.width
        if width < 2:
            return alone
        # The sum over pairs is half of the square of the sum without the squares.
        pairs = alone * alone
        pairs -= squares
        pairs *= (1 - self.additive) / (width * (width - 1))
        alone *= self.additive / width
        pairs += alone
        return pairs

    def _reserve(self, rows: int) -> None:
        size = len(self._solved)
        if rows <= size:
            return
        size = max(rows, 2 * size, 32)
        factor = np.zeros((size, size))
        solved = np.empty((size, self.pool.count), np.float32)
        old = len(self._solved)
        factor[:old, :old] = self._factor
        solved[:old] = self._solved
        self._factor, self._solved = factor, solved
