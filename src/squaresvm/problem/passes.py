"""What a pass computes: sums over the rows of a block, which add up to those over all rows.

At (w, b), with f = Z w + b, the signed slack xi and beta = C xi, a linear model of problem (P) has

    objective  1/2 |w|^2 + A/2 b^2 + 1/2 sum C_i xi_i^2                                                  (1)
    gradient   w - Z'beta  and  A b - 1'beta                                                             (2)
    Hessian    I + sum over active rows of C_i z_i z_i', bordered by the bias                            (3)

so that a pass is a reduction: memory, memory maps, files and a cluster differ only in who runs the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

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
    "Moved",
    "RowBlock",
    "Sums",
    "Totals",
    "added",
    "costs_of",
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
            return _evaluate_compiled(block, self.loss, self.w, self.b)
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
        found = _moments_compiled(block, rows)
    else:
        some: Any = slice(None) if rows.all() else np.flatnonzero(rows)  # No copy of all of them.
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
            return _compare_compiled(block, self.at.w, self.at.b, self.w, self.b)
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


# Compiled loops, where rows are many: Numba is imported when they are first asked for --------------------


def _evaluate_compiled(block: RowBlock, loss: Loss, w: FloatArray, b: FloatArray) -> tuple[Sums, BoolArray]:
    """Return the sums over one block, and which rows are active, of shape (rows, 1)."""
    from squaresvm.problem._loops import evaluate_rows

    in_w, active = np.zeros(w.shape[0]), np.empty(block.costs.size, dtype=bool)
    found = evaluate_rows(
        block.Z,
        block.targets[:, 0],
        *costs_of(block),
        np.ascontiguousarray(w[:, 0]),
        float(b[0]),
        loss == Loss.SQUARED_HINGE,
        in_w,
        active,
    )
    return Sums(np.array([found[0]]), in_w[:, None], np.array([found[1]])), active[:, None]


def _compare_compiled(
    block: RowBlock, w: FloatArray, b: FloatArray, former_w: FloatArray, former_b: FloatArray
) -> tuple[Sums, BoolArray, BoolArray]:
    """Return the sums over one block, and which rows are active at either point, of shape (rows, 1)."""
    from squaresvm.problem._loops import compare_rows

    in_w = np.zeros(w.shape[0])
    active, was_active = np.empty((2, block.costs.size), dtype=bool)
    found = compare_rows(
        block.Z,
        block.targets[:, 0],
        *costs_of(block),
        np.ascontiguousarray(w[:, 0]),
        float(b[0]),
        np.ascontiguousarray(former_w[:, 0]),
        float(former_b[0]),
        in_w,
        active,
        was_active,
    )
    sums = Sums(np.array([found[0]]), in_w[:, None], np.array([found[1]]))
    return sums, active[:, None], was_active[:, None]


def _moments_compiled(block: RowBlock, rows: BoolArray) -> Moments:
    """Return the moments of some rows."""
    from squaresvm.problem._loops import scatter_rows

    n = block.Z.shape[1]
    # Any origin among the rows keeps the digits that sums of squares of large means would lose.
    origin = np.asarray(block.Z[:64].mean(axis=0), dtype=np.float64)
    first, second, response = np.zeros(n), np.zeros((n, n)), np.zeros(n)
    total, target, squares = scatter_rows(
        block.Z,
        block.targets[:, 0],
        *costs_of(block),
        np.ascontiguousarray(rows),
        origin,
        first,
        second,
        response,
    )
    if total == 0.0:
        return Moments(0.0, np.zeros(n), second, np.zeros(1), np.zeros((n, 1)), np.zeros(1))
    second = np.tril(second) + np.tril(second, -1).T
    mean, level = first / total, target / total
    return Moments(
        total,
        origin + mean,
        second - np.outer(first, mean),
        np.array([level]),
        (response - first * level)[:, None],
        np.array([squares - target * level]),
    )


def costs_of(block: RowBlock) -> tuple[FloatArray, int]:
    """Return the costs, and how far each row's is from the one before: equal ones may be one number."""
    if block.costs.strides == (0,):
        return np.array([block.costs[0]]), 0
    return block.costs, 1
