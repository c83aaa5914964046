"""The primal system of a linear model, from the sums Z'CZ, Z'C1 and 1'C1 of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from squaresvm.factors.view import Posed
from squaresvm.family import Bias
from squaresvm.kernels import squared_norms
from squaresvm.linalg.blas import add_gram, product, solve_triangular_in_place, times
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError, cholesky_with_jitter
from squaresvm.runtime.resources import row_blocks
from squaresvm.solution import Factor
from squaresvm.typing import FloatArray, Matrix

__all__ = ["ColumnFactors", "Moments", "MomentsFactor"]

#: Share of entries from which on blocks of sparse rows are faster multiplied as dense ones, and their size:
#: what the processor finds in its cache.
_DENSE_SHARE, _BLOCK_BYTES = 0.02, 2**20
#: Rows of a block of many features.
_BLOCK_ROWS = 512


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over rows and their targets: all that the squared loss needs of them.

    Around the means, so that large means cost no precision.

    Parameters
    ----------
    total : float
        S = sum C_i.
    mean : ndarray of shape (n,)
        z = sum C_i z_i / S.
    scatter : ndarray of shape (n, n)
        sum C_i (z_i - z)(z_i - z)'.
    target : ndarray of shape (k,)
        Mean of the targets.
    response : ndarray of shape (n, k)
        sum C_i (z_i - z)(y_i - target)'.
    spread : ndarray of shape (k,)
        sum C_i (y_i - target)^2.
    peak : ndarray of shape (n + 1,), optional
        The largest that the diagonal of the scatter, and the total, have been since the rows were read.
    widest : ndarray of shape (k,), optional
        At least the largest that the spread has been since then, a power of two.
    largest, lightest : float, optional
        At least the largest |z_i|, and at most the smallest C_i, of all rows that were ever in the sums.
        Powers of two, so that they tell next to nothing of a single row. None where they were not taken.
    """

    total: float
    mean: FloatArray
    scatter: FloatArray
    target: FloatArray
    response: FloatArray
    spread: FloatArray
    peak: FloatArray | None = None
    widest: FloatArray | None = field(default=None, kw_only=True)
    largest: float | None = field(default=None, kw_only=True)
    lightest: float | None = field(default=None, kw_only=True)

    @property
    def _size(self) -> FloatArray:
        return np.append(np.diagonal(self.scatter), self.total)

    def loss_of_digits(self, ridge: float = 0.0) -> float:
        """Return by what factor subtraction has raised the relative error of the sums.

        With `ridge` beside the scatter, only what is lost of the sum of both counts.
        """
        if self.peak is None:
            return 1.0
        size = self._size
        size[:-1] += ridge
        shrunk = np.divide(self.peak, size, out=np.full_like(size, np.inf), where=size > 0)
        return float(np.where(self.peak > 0, shrunk, 1.0).max())

    def having_lost(self, factor: float) -> Moments:
        """Return the sums as if subtraction had raised their relative error by this factor."""
        return replace(self, peak=None if factor <= 1.0 else factor * self._size)

    def blurred(self) -> Moments:
        """Return the sums with two digits of what they have lost, in place of what they once were.

        The difference to the largest sums would tell by how much each column of a row that left stood out.
        """
        return self.having_lost(float(f"{self.loss_of_digits():.1e}"))

    @classmethod
    def of(cls, Z: Matrix, costs: FloatArray, targets: FloatArray) -> Moments:
        """Return the sums over the rows of Z. Very sparse rows are not centred, to keep them sparse."""
        n = Z.shape[1]
        stays_sparse = sp.issparse(Z) and Z.nnz < _DENSE_SHARE * Z.shape[0] * n
        total = float(costs.sum())
        share = costs / total if total > 0 else costs
        mean, target = times(Z.T, share), share @ targets
        scatter, response = np.zeros((n, n), order="F"), np.zeros((n, targets.shape[1]))
        spread = costs @ np.square(targets - target)
        # A block with few rows would spend its time on the sum and not on the products.
        for part in row_blocks(Z.shape[0], n, max(_BLOCK_BYTES, 8 * n * min(n, _BLOCK_ROWS))):
            block, weight, deviation = Z[part], costs[part, None], targets[part] - target
            if stays_sparse:
                scatter += (block.multiply(weight).T @ block).toarray()
                response += block.T @ (weight * deviation)
            else:
                root = np.sqrt(weight)
                scaled = (block.toarray() if sp.issparse(block) else block) - mean
                scaled *= root
                add_gram(scatter, scaled)
                response += times(scaled.T, root * deviation)
        if stays_sparse:
            scatter -= total * np.outer(mean, mean)
        else:
            scatter = np.tril(scatter)
            scatter += np.tril(scatter, -1).T
        return cls(total, mean, scatter, target, response, spread)

    def bounded(self, Z: Matrix, costs: FloatArray) -> Moments:
        """Return the sums with the bounds on norms and costs of their rows, which are those of Z."""
        if costs.size == 0:
            return self
        largest = _power_of_two_above(float(np.sqrt(squared_norms(Z).max())))
        return replace(self, largest=largest, lightest=1.0 / _power_of_two_above(1.0 / float(costs.min())))

    def scaled(self, by: float) -> Moments:
        """Return the sums with every row so many times."""
        total, scatter, response = by * self.total, by * self.scatter, by * self.response
        return Moments(total, self.mean, scatter, self.target, response, by * self.spread)

    def plus(self, other: Moments) -> Moments:
        """Return the sums over the rows of both."""
        total = self.total + other.total
        share = other.total / total
        return self._moved(other, total, share, 1.0, self.total * share)

    def joined(self, other: Moments) -> Moments:
        """Return the same as `plus`, where either may be of no rows at all."""
        if other.total == 0.0:
            return self
        return other if self.total == 0.0 else self.plus(other)

    def minus(self, other: Moments) -> Moments:
        """Return the sums without the rows of `other`, which must be among these."""
        total = self.total - other.total
        if total <= 0.0:
            # All rows leave: what differences would leave of the sums is rounding, and means are of nothing.
            return self._emptied()
        share = -other.total / total
        return self._moved(other, total, share, -1.0, self.total * share)

    def _emptied(self) -> Moments:
        """Return the sums over no rows, of which `loss_of_digits` tells that no digit is left of them."""
        nothing = Moments(0.0, *(0.0 * sums for sums in self._sums))
        return replace(nothing, peak=self._peak)

    @property
    def _sums(self) -> tuple[FloatArray, ...]:
        return self.mean, self.scatter, self.target, self.response, self.spread

    @property
    def _peak(self) -> FloatArray:
        return self._size if self.peak is None else self.peak

    def _moved(self, other: Moments, total: float, share: float, sign: float, between: float) -> Moments:
        # With a and b between the two means, sums around the joint mean gain S S' / (S + S') a b'.
        away, gap = self.mean - other.mean, self.target - other.target
        moved = Moments(
            total,
            self.mean - share * away,
            self.scatter + sign * other.scatter + between * np.outer(away, away),
            self.target - share * gap,
            self.response + sign * other.response + between * np.outer(away, gap),
            self.spread + sign * other.spread + between * gap**2,
        )
        peak = self._peak
        largest, lightest = self.largest, self.lightest
        if sign > 0.0:
            largest = None if largest is None or other.largest is None else max(largest, other.largest)
            lightest = None if lightest is None or other.lightest is None else min(lightest, other.lightest)
        before = self.spread if self.widest is None else self.widest
        widest = np.array([_power_of_two_above(float(s)) for s in np.maximum(before, moved.spread)])
        peak = np.maximum(peak, moved._size)
        return replace(moved, peak=peak, widest=widest, largest=largest, lightest=lightest)

    @property
    def rounding_scale(self) -> float:
        """The largest entry that the scatter has had: its errors are eps times that, whatever is left."""
        return float(self._peak[:-1].max(initial=0.0))


def _power_of_two_above(value: float) -> float:
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0.0 else 0.0


def _factor_above_one(R: FloatArray) -> FloatArray:
    """Return L, lower triangular, with L L' equal to R but for eigenvalues below one, which become one."""
    values, vectors = np.linalg.eigh(R)
    root = np.sqrt(np.maximum(values, 1.0))
    triangle = scipy.linalg.qr((vectors * root).T, mode="r")[0]
    return np.asfortranarray(triangle.T)


class MomentsFactor(Factor):
    """Factor of the Hessian in (w, b) of a linear model, made from sums over its rows.

    With the weighted total S, mean z and scatter G of the rows the normal equations are

        [I + G + S z z',  S z ] [w]   [p]
        [S z'          ,  A + S] [b] = [q]

    and eliminating b leaves R = I + G + S A / (A + S) z z', a sum of semidefinite terms: nothing is
    subtracted, whatever the mean of the columns.

    Parameters
    ----------
    moments : Moments
        Sums over the rows.
    bias : Bias
    """

    def __init__(self, moments: Moments, bias: Bias) -> None:
        self.moments = moments
        self.bias = bias
        total, mean = self.moments.total, self.moments.mean
        A = bias.penalty
        self._total = A + total
        # Without rows a free bias has nothing to go by, and stays where it is.
        self._has_bias = not bias.is_absent and self._total > 0.0
        self._pull = total / self._total * mean if self._has_bias else 0.0 * mean
        left = total * A / self._total if self._has_bias else total
        self._matrix = np.asfortranarray(self.moments.scatter + left * np.outer(mean, mean))
        self._matrix[np.diag_indices(mean.size)] += 1.0
        self._factor = self._matrix.copy(order="F")
        # I and a scatter are definite, whatever the rows are: where the factor fails, subtraction has left
        # errors of the size of what was subtracted from.
        diagonal = np.diagonal(self._matrix).copy()
        scale = max(float(diagonal.max(initial=0.0)), self.moments.rounding_scale)
        try:
            cholesky_with_jitter(self._factor, diagonal, self._refill, scale)
        except NotPositiveSemidefiniteError:
            # R is the identity and more, whatever rounding made of sums of large columns.
            self._factor = _factor_above_one(self._matrix)

    @classmethod
    def current(cls, found: object, posed: Posed) -> MomentsFactor:
        """Return the factor that came with a solution in w, or a new one of all rows of the problem."""
        own, Z = cls.among(found), posed.operator.features
        return own or cls(Moments.of(Z, posed.costs, posed.targets), posed.bias)

    def _refill(self) -> None:
        self._factor[:] = self._matrix

    def step(self, p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (w, b) of the normal equations for right-hand sides p of shape (n, k), q of shape (k,)."""
        w = np.array(p - np.outer(self._pull, q), order="F")
        solve_triangular_in_place(self._factor, w)
        solve_triangular_in_place(self._factor, w, transpose=True)
        if not self._has_bias:
            return w, np.zeros_like(q)
        return w, q / self._total - self._pull @ w

    def minimum(self) -> tuple[FloatArray, FloatArray]:
        """Return the (w, b) that minimises the squared loss, from the sums alone."""
        moments = self.moments
        q = moments.total * moments.target
        return self.step(moments.response + np.outer(moments.mean, q), q)

    def refined_minimum(self) -> tuple[FloatArray, FloatArray]:
        """Return the same after one step of refinement."""
        w, b = self.minimum()
        in_w, in_b = self.gradient(w, b)
        dw, db = self.step(-in_w, -in_b)
        return w + dw, b + db

    def gradient(self, w: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of the objective at (w, b), from the sums alone."""
        moments = self.moments
        slack = moments.total * (moments.target - moments.mean @ w - b)
        in_w = w - moments.response + moments.scatter @ w - np.outer(moments.mean, slack)
        return in_w, np.zeros_like(b) if self.bias.is_absent else self.bias.penalty * b - slack

    def objective(self, w: FloatArray, b: FloatArray) -> FloatArray:
        """Return the objective at (w, b), from the sums alone, of shape (k,)."""
        moments = self.moments
        away = moments.target - moments.mean @ w - b
        around = (w * (moments.scatter @ w - 2.0 * moments.response)).sum(axis=0)
        loss = moments.spread + around + moments.total * away**2
        pull = 0.0 if self.bias.is_absent else self.bias.penalty * b**2
        return np.asarray(0.5 * (np.square(w).sum(axis=0) + pull + loss))

    def log_determinant(self) -> float:
        """Return the logarithm of the determinant of the Hessian in (w, b)."""
        total = 2.0 * float(np.log(np.diagonal(self._factor)).sum())
        return total + float(np.log(self._total)) if self._has_bias else total

    def leverage(self, Z: Matrix) -> FloatArray:
        """Return (z_i, 1)' inv(Hessian) (z_i, 1) of each row of Z."""
        m, n = Z.shape
        leverage = np.full(m, self._beside)
        for part in row_blocks(m, n):
            away = self._half_way(Z[part])
            leverage[part] += np.einsum("ij,ij->j", away, away)
        return leverage

    def between(self, Z: Matrix) -> FloatArray:
        """Return (z_i, 1)' inv(Hessian) (z_j, 1) of all pairs of rows of Z."""
        away = self._half_way(Z)
        return product(away.T, away) + self._beside

    @property
    def _beside(self) -> float:
        return 1.0 / self._total if self._has_bias else 0.0

    def _half_way(self, Z: Matrix) -> FloatArray:
        rows = Z.toarray() if sp.issparse(Z) else Z
        away = np.array((rows - self._pull).T, dtype=np.float64, order="F")
        solve_triangular_in_place(self._factor, away)
        return away


@dataclass(frozen=True, eq=False)
class ColumnFactors(Factor):
    """Factors of the Hessian of each column of targets, or one that serves all columns.

    Parameters
    ----------
    each : tuple of MomentsFactor
    """

    each: tuple[MomentsFactor, ...]

    def step(self, p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (w, b) of the normal equations of every column."""
        if len(self.each) == 1:
            return self.each[0].step(p, q)
        steps = [factor.step(p[:, [j]], q[[j]]) for j, factor in enumerate(self.each)]
        return np.hstack([w for w, _ in steps]), np.concatenate([b for _, b in steps])

    def leverage(self, Z: Matrix, column: int) -> FloatArray:
        """Return (z_i, 1)' inv(Hessian) (z_i, 1) of each row of Z, by the Hessian of a column."""
        return self.each[min(column, len(self.each) - 1)].leverage(Z)
