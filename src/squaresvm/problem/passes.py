"""What a pass computes: sums over the rows of a block, which add up to those over all rows.

At (w, b), with f = Z w + b, the signed slack xi and beta = C xi, a linear model of problem (P) has

    objective  1/2 |w|^2 + A/2 b^2 + 1/2 sum C_i xi_i^2                                                  (1)
    gradient   w - Z'beta  and  A b - 1'beta                                                             (2)
    Hessian    I + sum over active rows of C_i z_i z_i', bordered by the bias                            (3)

so that a pass is a reduction: memory, memory maps, files and a cluster differ only in who runs the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from squaresvm.factors import Moments
from squaresvm.family import Loss
from squaresvm.linalg.blas import times
from squaresvm.typing import BoolArray, FloatArray, Matrix

#: Chosen rows are better gone through by compiled loops than copied for BLAS where many, of few features.
_FEW_ROWS, _FEW_FEATURES = 256, 32
#: Numbers in a block, for each column of targets, up to which its sums are taken in extended precision.
_EXTENDED = 20_000
#: Rows of which the first stand for the others where some tell enough.
_GROUP = 64

__all__ = [
    "Along",
    "Collect",
    "Curvature",
    "Evaluate",
    "Largest",
    "Magnitude",
    "Moved",
    "Reach",
    "RowBlock",
    "Sums",
    "Totals",
    "Verify",
    "Weighing",
    "added",
    "in_float64",
]


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows of a block as the problem sees them.

    Parameters
    ----------
    Z : array or CSR matrix of shape (rows, n)
    targets : ndarray of shape (rows, k)
    costs : ndarray of shape (rows,)
        C_i > 0.
    compiled : bool, default=False
        Whether to go through the rows by compiled loops: worth it where rows are many, dense, and of one
        column of targets.
    first : int, default=0
        Number of the first row among all, where they are in memory.
    """

    Z: Matrix
    targets: FloatArray
    costs: FloatArray
    compiled: bool = False
    first: int = 0


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over rows that add up field by field."""


S = TypeVar("S", bound=Totals)


def added(one: S, other: S) -> S:
    """Return the sums over the rows of both."""
    return type(one)(*(getattr(one, field.name) + getattr(other, field.name) for field in fields(one)))


@dataclass(frozen=True, eq=False)
class Sums(Totals):
    """Loss and gradient at (w, b).

    Parameters
    ----------
    loss : ndarray of shape (k,)
        sum C_i xi_i^2.
    in_w : ndarray of shape (n, k)
        Z'beta.
    in_b : ndarray of shape (k,)
        1'beta.
    """

    loss: FloatArray
    in_w: FloatArray
    in_b: FloatArray


def in_float64(Z: Matrix) -> Matrix:
    """Return the rows of one block in float64: float32 is read as such, and accumulated in float64."""
    return Z if Z.dtype == np.float64 else Z.astype(np.float64)


def slack(targets: FloatArray, decision: FloatArray, loss: Loss) -> FloatArray:
    """Return the signed slack: y - f, or y max(0, 1 - y f)."""
    error = targets - decision
    if loss == Loss.SQUARED_HINGE:
        np.copyto(error, 0.0, where=targets * error < 0.0)
    return error


@dataclass(frozen=True, eq=False)
class Evaluate:
    """The task of a pass that needs loss and gradient at (w, b)."""

    loss: Loss
    w: FloatArray
    b: FloatArray

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums over one block."""
        return self.with_active(block)[0]

    def with_active(self, block: RowBlock) -> tuple[Sums, BoolArray]:
        """Return the sums over one block, and which rows are active, of shape (rows, k)."""
        if block.compiled:
            from squaresvm.problem import compiled_blocks

            return compiled_blocks.evaluate(block, self.loss, self.w, self.b)
        if isinstance(block.Z, np.ndarray) and block.Z.size * self.b.size <= _EXTENDED:
            return self._extended(block)
        Z = in_float64(block.Z)
        xi = slack(block.targets, times(Z, self.w) + self.b, self.loss)
        beta = block.costs[:, None] * xi
        sums = Sums(np.einsum("ij,ij->j", beta, xi), times(Z.T, beta), beta.sum(axis=0))
        return sums, np.ones(xi.shape, dtype=bool) if self.loss == Loss.SQUARED else xi != 0.0

    def _extended(self, block: RowBlock) -> tuple[Sums, BoolArray]:
        """Return the same by sums in extended precision, where the platform has any: Z'beta cancels."""
        Z = block.Z.astype(np.longdouble)
        decision = Z @ self.w.astype(np.longdouble) + self.b
        xi = slack(block.targets.astype(np.longdouble), decision, self.loss)
        beta = block.costs[:, None] * xi
        found = ((beta * xi).sum(axis=0), Z.T @ beta, beta.sum(axis=0))
        sums = Sums(*(np.asarray(part, dtype=np.float64) for part in found))
        return sums, np.ones(xi.shape, dtype=bool) if self.loss is Loss.SQUARED else xi != 0.0


def moments_of(block: RowBlock, column: int, rows: BoolArray, every: int = 1) -> Moments:
    """Return the moments of some rows, with one column of targets; by about one out of `every` of them."""
    if every > 1:
        rows = _thinned(rows, every)
    few = np.count_nonzero(rows) <= _FEW_ROWS
    if block.compiled and not few and block.Z.shape[1] <= _FEW_FEATURES:
        from squaresvm.problem import compiled_blocks

        found = compiled_blocks.moments(block, rows)
    else:
        some = np.flatnonzero(rows)
        targets = block.targets[some, column][:, None]
        found = Moments.of(in_float64(block.Z[some]), block.costs[some], targets)
    return found if every == 1 else found.scaled(_GROUP / (_GROUP // every))


def _thinned(rows: BoolArray, every: int) -> BoolArray:
    """Return which of some rows stand for all: neighbours, which are read together, out of each group."""
    chosen = np.zeros(rows.size, dtype=bool)
    for place in range(_GROUP // every):
        chosen[place::_GROUP] = rows[place::_GROUP]
    return chosen


@dataclass(frozen=True, eq=False)
class Curvature:
    """The task of a pass that needs the Hessian at (w, b): the moments of the active rows of each column.

    With the squared loss all rows are active, so that one serves all columns. With the squared hinge, one
    out of `every` rows may stand for them all.
    """

    at: Evaluate
    every: int = 1
    forms_squares: ClassVar[bool] = True

    def __call__(self, block: RowBlock) -> tuple[Sums, tuple[Moments, ...]]:
        """Return the sums and moments over one block."""
        sums, active = self.at.with_active(block)
        if self.at.loss == Loss.SQUARED:
            return sums, Collect()(block)
        columns = range(active.shape[1])
        return sums, tuple(moments_of(block, j, active[:, j], self.every) for j in columns)


@dataclass(frozen=True, eq=False)
class Collect:
    """The task of a pass that needs the moments of all rows: all that the squared loss needs of them."""

    forms_squares: ClassVar[bool] = True

    def __call__(self, block: RowBlock) -> tuple[Moments, ...]:
        """Return the moments over one block."""
        if block.compiled:
            found = moments_of(block, 0, np.ones(block.costs.size, dtype=bool))
        else:
            found = Moments.of(in_float64(block.Z), block.costs, block.targets)
        return (found.bounded(block.Z, block.costs),)


@dataclass(frozen=True, eq=False)
class Moved:
    """The task of a pass that needs what became of the Hessian between two points: few rows change sides.

    Nothing is remembered of a row between passes: its side at the former point is computed again.
    """

    at: Evaluate
    w: FloatArray
    b: FloatArray
    forms_squares: ClassVar[bool] = True

    def __call__(self, block: RowBlock) -> tuple[Sums, tuple[Moments, ...], tuple[Moments, ...]]:
        """Return the sums, and the moments of the rows that became active and of those that no longer are."""
        sums, now, was = self._compared(block)
        came, left = now & ~was, was & ~now
        columns = range(now.shape[1])
        return (
            sums,
            tuple(moments_of(block, j, came[:, j]) for j in columns),
            tuple(moments_of(block, j, left[:, j]) for j in columns),
        )

    def _compared(self, block: RowBlock) -> tuple[Sums, BoolArray, BoolArray]:
        if block.compiled and self.at.loss == Loss.SQUARED_HINGE:
            from squaresvm.problem import compiled_blocks

            return compiled_blocks.compare(block, self.at.w, self.at.b, self.w, self.b)
        sums, now = self.at.with_active(block)
        return sums, now, Evaluate(self.at.loss, self.w, self.b).with_active(block)[1]


@dataclass(frozen=True, eq=False)
class Slopes(Totals):
    """What the rows contribute to the derivative of the objective along a line; see `Along`."""

    growth: FloatArray
    bends: FloatArray


@dataclass(frozen=True, eq=False)
class Along:
    """The task of a pass that looks along the line (w + t dw, b + t db) for some t of each column.

    The derivative of the hinge terms along the line is linear in t but for rows that change sides. Summed
    are the growth of the linear part and, at each t, what the rows that changed sides add to it: as a
    difference of two derivatives it would have no digit left where C is large.

    Parameters
    ----------
    w, dw : ndarray of shape (n, k)
    b, db : ndarray of shape (k,)
    times : ndarray of shape (q, k)
    """

    w: FloatArray
    b: FloatArray
    dw: FloatArray
    db: FloatArray
    times: FloatArray

    def __call__(self, block: RowBlock) -> Slopes:
        """Return the sums over one block: growth of shape (k,), bends of shape (q, k)."""
        Z, y = in_float64(block.Z), block.targets
        margin = 1.0 - y * (times(Z, self.w) + self.b)
        change = y * (times(Z, self.dw) + self.db)
        active = margin > 0.0
        pull = block.costs[:, None] * change
        growth = np.einsum("ij,ij,ij->j", pull, change, active)
        bends = np.empty(self.times.shape)
        for index, time in enumerate(self.times):
            reached = margin - time * change
            # max(0, reached), less its linear continuation from t = 0.
            beyond = np.maximum(np.where(active, -reached, reached), 0.0)
            bends[index] = -np.einsum("ij,ij->j", pull, beyond)
        return Slopes(growth, bends)


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
            from squaresvm.problem import compiled_blocks

            return compiled_blocks.verify(block, self)
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
