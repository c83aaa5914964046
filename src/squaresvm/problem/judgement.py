"""What judges a linear model by passes over its rows: residual and gap, their rounding, the error of f.

The bounds on the error of decision values are those of :mod:`squaresvm.problem.verdict`. Where the Hessian
over the rows S of (6) can be factored, (x, 1)' inv(H) (x, 1) takes the place of (7) and (8): it is never
larger, and hardly ever as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.family import Bias, Loss
from squaresvm.kernels import squared_norms
from squaresvm.linalg.blas import times
from squaresvm.problem.passes import Evaluate, RowBlock, Totals, costs_of, in_float64, slack
from squaresvm.problem.verdict import EPSILON, certain_room, row_spread
from squaresvm.typing import BoolArray, FloatArray, Matrix

__all__ = ["Largest", "Magnitude", "Reach", "Verify", "Weighing", "error_by_norms", "error_by_sums"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Weighing(Totals):
    """What a certificate needs besides loss and gradient; the worst row is apart.

    Parameters
    ----------
    size : ndarray of shape (k,)
        |beta|_1.
    up, down : ndarray of shape (n, k)
        Z'beta over the rows of either sign; zero where they are not needed.
    loss_up : ndarray of shape (k,)
        sum C_i xi_i^2 over the rows with beta_i > 0.
    ridge : float
        sum 1 / C_i.
    column : ndarray of shape (n,)
        sum z_i.
    rows : int
    """

    size: FloatArray
    up: FloatArray
    sum_up: FloatArray
    loss_up: FloatArray
    ridge: float
    column: FloatArray
    rows: int


@dataclass(frozen=True, eq=False)
class Verify:
    """The task of the last pass: the residual of every row, r = K beta + beta / C + b - y, and the gap.

    K beta = Z Z'beta, of which Z'beta is known from the pass before.

    Parameters
    ----------
    at : Evaluate
    in_w : ndarray of shape (n, k)
        Z'beta there.
    penalty : float
        A; infinite where there is no bias.
    """

    at: Evaluate
    in_w: FloatArray
    penalty: float

    def __call__(self, block: RowBlock) -> tuple[FloatArray, Weighing]:
        """Return the worst row of each column, of shape (k,), and sums."""
        if block.compiled:
            return _verify_compiled(block, self)
        Z, y, costs = in_float64(block.Z), block.targets, block.costs[:, None]
        k = y.shape[1]
        both = times(Z, np.hstack([self.at.w, self.in_w - self.at.w]))
        decision = both[:, :k] + self.at.b
        xi = slack(y, decision, self.at.loss)
        beta = costs * xi
        defect = both[:, k:] + decision + xi - y
        if self.at.loss == Loss.SQUARED:
            worst = np.abs(defect).max(axis=0)
        else:
            worst = self._complementarity(Z, y, xi, block.costs, defect)
        return worst, self._weighing(Z, block, xi, beta)

    @property
    def needs_sides(self) -> bool:
        """Whether the gap needs the sums over rows of either sign: free bias, squared hinge."""
        return self.penalty == 0.0 and self.at.loss == Loss.SQUARED_HINGE

    def centring(self, block: RowBlock) -> tuple[float, FloatArray]:
        """Return sum 1 / C_i and sum z_i, which the gap needs where the bias is free and the loss squared."""
        if self.penalty == 0.0 and self.at.loss == Loss.SQUARED:
            return float(np.sum(1.0 / block.costs)), np.asarray(in_float64(block.Z).sum(axis=0)).ravel()
        return 0.0, np.zeros(block.Z.shape[1])

    def _complementarity(
        self, Z: Matrix, y: FloatArray, xi: FloatArray, costs: FloatArray, defect: FloatArray
    ) -> FloatArray:
        """Return the largest |min(h_i y_i beta_i, y_i r_i)|, h_i = K_ii + 1/C_i + 1/A, of each column."""
        signed, room = y * defect, y * xi
        # h beta > beta / C = xi, so that h matters only where a row is active by less than its defect.
        value = np.where(room > 0.0, signed, np.minimum(signed, 0.0))
        close = (room > 0.0) & (room < signed)
        rows = np.flatnonzero(close.any(axis=1))
        if rows.size:
            some = Z[rows]
            squares = some.multiply(some) if sp.issparse(some) else some * some
            h = np.asarray(squares.sum(axis=1)).ravel() + 1.0 / costs[rows]
            h += 1.0 / self.penalty if self.penalty > 0.0 else 0.0
            least = np.minimum(signed[rows], (h * costs[rows])[:, None] * room[rows])
            value[rows] = np.where(close[rows], least, value[rows])
        return np.asarray(np.abs(value).max(axis=0))

    def _weighing(self, Z: Matrix, block: RowBlock, xi: FloatArray, beta: FloatArray) -> Weighing:
        size = np.abs(beta).sum(axis=0)
        none = np.zeros_like(self.at.w)
        ridge, column = self.centring(block)
        above, loss_up = none, np.zeros(size.size)
        positive = np.maximum(beta, 0.0)
        if self.needs_sides:
            above = times(Z.T, positive)
            loss_up = np.einsum("ij,ij->j", positive, xi)
        return Weighing(size, above, positive.sum(axis=0), loss_up, ridge, column, block.targets.shape[0])


def _verify_compiled(block: RowBlock, task: Verify) -> tuple[FloatArray, Weighing]:
    """Return the worst row, of shape (1,), and sums."""
    from squaresvm.problem._loops import verify_rows

    at = task.at
    up = np.zeros(block.Z.shape[1] if task.needs_sides else 0)
    worst, size, sum_up, loss_up = verify_rows(
        block.Z,
        block.targets[:, 0],
        *costs_of(block),
        np.ascontiguousarray(at.w[:, 0]),
        float(at.b[0]),
        np.ascontiguousarray((task.in_w - at.w)[:, 0]),
        at.loss == Loss.SQUARED_HINGE,
        1.0 / task.penalty if task.penalty > 0.0 else 0.0,
        up,
    )
    above = up[:, None] if task.needs_sides else np.zeros_like(at.w)
    ridge, column = task.centring(block)
    weighing = Weighing(
        np.array([size]),
        above,
        np.array([sum_up]),
        np.array([loss_up]),
        ridge,
        column,
        block.costs.size,
    )
    return np.array([worst]), weighing


@dataclass(frozen=True, eq=False)
class Reach(Totals):
    """What goes into the sums Z'beta and 1'beta, and so their rounding.

    Parameters
    ----------
    size : ndarray of shape (n, k)
        sum |beta_i| |z_i|.
    squares : ndarray of shape (n, k)
        sum (C_i |z_i| (|z_i|'|w| + |b| + |y_i|))^2 over the active rows.
    multipliers : ndarray of shape (k,)
        |beta|_1.
    together : ndarray of shape (k,)
        sum C_i (|z_i|'|w| + |b| + |y_i|) over the active rows: b has so many digits and no more, and its
        error is the same in all rows.
    """

    size: FloatArray
    squares: FloatArray
    multipliers: FloatArray
    together: FloatArray


@dataclass(frozen=True, eq=False)
class Magnitude:
    """The task of a pass that measures what goes into sums, and so their rounding.

    A multiplier has C times the rounding of the slack that it is made of. The errors of many rows are as
    good as independent: it is their squares that add up.

    Parameters
    ----------
    at : Evaluate
    """

    at: Evaluate

    def __call__(self, block: RowBlock) -> Reach:
        """Return the sums over one block."""
        Z, w, b = in_float64(block.Z), self.at.w, self.at.b
        xi = slack(block.targets, times(Z, w) + b, self.at.loss)
        size, costs = abs(Z), block.costs[:, None]
        terms = times(size, np.abs(w)) + np.abs(b) + np.abs(block.targets)
        rounded = np.where(xi != 0.0, costs * terms, 0.0)
        squares = size.multiply(size) if sp.issparse(size) else size * size
        beta = costs * np.abs(xi)
        return Reach(times(size.T, beta), times(squares.T, rounded**2), beta.sum(axis=0), rounded.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Largest:
    """The task of a pass that finds the row with the largest |z|'reach + unit (|xi| + |b| + |y|)."""

    at: Evaluate
    reach: FloatArray
    unit: float

    def __call__(self, block: RowBlock) -> FloatArray:
        """Return the largest of one block, of shape (k,)."""
        Z = in_float64(block.Z)
        xi = slack(block.targets, times(Z, self.at.w) + self.at.b, self.at.loss)
        alone = np.abs(xi) + np.abs(self.at.b) + np.abs(block.targets)
        return np.asarray((times(abs(Z), self.reach) + self.unit * alone).max(axis=0))


class _Blocks(Protocol):
    """Who runs the blocks; see :class:`squaresvm.problem.linear.Runner`."""

    def map(self, task: Callable[[RowBlock], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order."""
        ...


@dataclass(frozen=True, eq=False)
class _Certain:
    """Which rows of a block are in S of (6), for each column, at (w, b) with the gaps there."""

    at: Evaluate
    gap: FloatArray

    def of(self, block: RowBlock, Z: Matrix) -> BoolArray:
        """Return them, of shape (rows, k)."""
        if self.at.loss == Loss.SQUARED:
            return np.ones(block.targets.shape, dtype=bool)
        room = np.abs(slack(block.targets, times(Z, self.at.w) + self.at.b, self.at.loss))
        return np.stack([room[:, j] > certain_room(g, block.costs) for j, g in enumerate(self.gap)], axis=1)


@dataclass(frozen=True, eq=False)
class _CertainSums:
    """The task of a pass that needs the moments of S, for each column; one for all with the squared loss."""

    certain: _Certain
    forms_squares: ClassVar[bool] = True

    def __call__(self, block: RowBlock) -> tuple[Moments, ...]:
        """Return the moments over one block."""
        Z, y = in_float64(block.Z), block.targets
        if self.certain.at.loss == Loss.SQUARED:
            return (Moments.of(Z, block.costs, y),)
        chosen = (np.flatnonzero(rows) for rows in self.certain.of(block, Z).T)
        return tuple(Moments.of(Z[rows], block.costs[rows], y[rows][:, [j]]) for j, rows in enumerate(chosen))


@dataclass(frozen=True, eq=False)
class _CertainSize:
    """The task of a pass that needs C_S and the largest |z|^2 in S, each of shape (k,)."""

    certain: _Certain

    def __call__(self, block: RowBlock) -> tuple[FloatArray, FloatArray]:
        """Return both for one block."""
        Z = in_float64(block.Z)
        inside, norms = self.certain.of(block, Z), squared_norms(Z)
        return block.costs @ inside, np.where(inside, norms[:, None], 0.0).max(axis=0)


@dataclass(frozen=True, eq=False)
class _LargestError:
    """The task of a pass that finds the largest bound on |f - f*|, of shape (k,), f's rounding included.

    Parameters
    ----------
    certain : _Certain
    bias : Bias
    total, largest : ndarray of shape (k,)
        C_S, and the largest |z|^2 in S.
    factors : tuple of MomentsFactor
        Of the Hessian over S, one a column or one for all; none where only norms are known.
    """

    certain: _Certain
    bias: Bias
    total: FloatArray
    largest: FloatArray
    factors: tuple[MomentsFactor, ...] = ()

    def __call__(self, block: RowBlock) -> FloatArray:
        """Return the largest bound of one block."""
        at, Z = self.certain.at, in_float64(block.Z)
        inside, norms = self.certain.of(block, Z), squared_norms(Z)
        rounding = EPSILON * (times(abs(Z), np.abs(at.w)) + np.abs(at.b))
        worst = np.empty(at.b.size)
        for j in range(worst.size):
            size = float(self.total[j]), float(self.largest[j])
            spread = row_spread(norms, block.costs, inside[:, j], self.bias, *size)
            if self.factors and (self.total[j] > 0.0 or not self.bias.is_free):
                factor = self.factors[min(j, len(self.factors) - 1)]
                spread = np.minimum(spread, factor.leverage(Z))
            worst[j] = (_root(self.certain.gap[j], spread) + rounding[:, j]).max()
        return worst


def _root(gap: float, spread: FloatArray) -> FloatArray:
    """Return sqrt(2 G spread); zero where the gap is, however little is known besides."""
    return np.sqrt(2.0 * gap * spread) if gap > 0.0 else np.zeros_like(spread)


def error_by_sums(runner: _Blocks, at: Evaluate, bias: Bias, gap: FloatArray) -> FloatArray:
    """Return the largest bound on |f - f*| at the rows, of shape (k,), by the Hessian over S: two passes."""
    certain = _Certain(at, gap)
    found: tuple[Moments, ...] = ()
    for some in runner.map(_CertainSums(certain)):
        found = tuple(a.joined(b) for a, b in zip(found, some, strict=True)) if found else some
    factors = tuple(MomentsFactor(moments, bias) for moments in found)
    total = np.broadcast_to(np.array([moments.total for moments in found]), gap.shape)
    # The factor says more than the norms in S would.
    return _largest(runner, _LargestError(certain, bias, total, np.full(gap.shape, np.inf), factors))


def error_by_norms(runner: _Blocks, at: Evaluate, bias: Bias, gap: FloatArray) -> FloatArray:
    """Return the largest bound on |f - f*| at the rows, of shape (k,), by norms of rows alone: two passes."""
    certain = _Certain(at, gap)
    total, largest = np.zeros(gap.shape), np.zeros(gap.shape)
    for some, norms in runner.map(_CertainSize(certain)):
        total, largest = total + some, np.maximum(largest, norms)
    return _largest(runner, _LargestError(certain, bias, total, largest))


def _largest(runner: _Blocks, task: _LargestError) -> FloatArray:
    worst = np.zeros(task.total.shape)
    for some in runner.map(task):
        worst = np.maximum(worst, some)
    return worst
