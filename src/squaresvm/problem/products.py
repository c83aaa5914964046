"""Passes for models with many features: products with the Hessian, in place of the Hessian.

With costs C_i on the active rows, their total S and mean z, and p = S z / (A + S) (p = 0 without a bias),
eliminating b from the Hessian (3) of :mod:`squaresvm.problem.passes` leaves, for any v,

    R v = v + sum over active rows of C_i z_i (z_i'v - p'v)                                              (4)
    R_jj = 1 + sum C_i z_ij^2 - S z_j p_j                                                                (5)

(4) is a pass and (5) comes with the gradient, so that n x n numbers are needed nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import scipy.sparse as sp

from squaresvm.family import Loss
from squaresvm.linalg.blas import times
from squaresvm.problem.passes import Evaluate, RowBlock, Sums, Totals, in_float64, slack
from squaresvm.runtime.resources import is_compiled
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = [
    "WIDE",
    "Multiply",
    "Outline",
    "Outlining",
    "Product",
    "Sides",
    "is_large",
    "is_wide",
    "squared",
]

#: Features from which on products with the Hessian are faster than the Hessian, measured on dense and sparse
#: rows; its memory grows with their square.
WIDE = 1000
#: Numbers in the smaller of m x m and n x n from which on neither is formed, where sparse rows hold fewer.
_LARGE = 16_000_000
#: Numbers in a block of sparse rows from which on compiled loops are used.
_MANY_NUMBERS = 100_000


def is_wide(n_features: int) -> bool:
    """Return whether there are so many features that the Hessian is better not formed."""
    return n_features > WIDE


def is_large(Z: Matrix) -> bool:
    """Whether sparse rows are so many and so wide that no m x m or n x n numbers are formed for them."""
    return sp.issparse(Z) and min(Z.shape) ** 2 > max(_LARGE, Z.nnz)


@dataclass(frozen=True, eq=False)
class Outline(Sums):
    """Loss and gradient, and what is to be known of the active rows beside their products.

    Where all rows are active, one column serves all.

    Parameters
    ----------
    loss, in_w, in_b : ndarray
        As in :class:`~squaresvm.problem.passes.Sums`.
    count : ndarray of shape (k,)
        Active rows.
    total : ndarray of shape (k,)
        sum C_i.
    column : ndarray of shape (n, k)
        sum C_i z_i.
    squares : ndarray of shape (n, k)
        sum C_i z_i^2, feature by feature.
    """

    count: FloatArray
    total: FloatArray
    column: FloatArray
    squares: FloatArray

    def with_columns(self, other: Outline, columns: BoolArray) -> Outline:
        """Return these sums with some columns of others."""
        pairs = ((getattr(self, its.name), getattr(other, its.name)) for its in fields(self))
        return Outline(*(np.where(columns, theirs, mine) for mine, theirs in pairs))


@dataclass(frozen=True, eq=False)
class Outlining:
    """The task of a pass that needs loss, gradient and the outline of the active rows at (w, b).

    Parameters
    ----------
    at : Evaluate
    tells_sides : bool
        Whether to say which rows are active: where they are far away, that does not travel.
    """

    at: Evaluate
    tells_sides: bool

    def __call__(self, block: RowBlock) -> tuple[Outline, BoolArray | None]:
        """Return the sums over one block, and which of its rows are active."""
        sums, active = self.at.with_active(block)
        if self.at.loss == Loss.SQUARED:
            active = active[:, :1]
        return _outline(sums, block, active), active if self.tells_sides else None


def _outline(sums: Sums, block: RowBlock, active: BoolArray) -> Outline:
    if block.compiled:
        from squaresvm.problem._loops import outline_rows

        column, squares = np.zeros(block.Z.shape[1]), np.zeros(block.Z.shape[1])
        rows = np.flatnonzero(active)
        outline_rows(block.Z, rows, np.ascontiguousarray(block.costs), column, squares)
        count, total = np.array([float(rows.size)]), np.array([block.costs[rows].sum()])
        return Outline(sums.loss, sums.in_w, sums.in_b, count, total, column[:, None], squares[:, None])
    Z, weights = in_float64(block.Z), block.costs[:, None] * active
    return Outline(
        sums.loss,
        sums.in_w,
        sums.in_b,
        active.sum(axis=0, dtype=np.float64),
        weights.sum(axis=0),
        times(Z.T, weights),
        times(squared(Z).T, weights),
    )


def squared(Z: Matrix) -> Matrix:
    """Return the rows with every number squared."""
    if not sp.issparse(Z):
        return Z * Z
    return sp.csr_matrix((Z.data * Z.data, Z.indices, Z.indptr), shape=Z.shape)


@dataclass(frozen=True, eq=False)
class Sides:
    """Which rows are active.

    Parameters
    ----------
    at : Evaluate
        The point that decides it.
    held : ndarray of bool of shape (m, k) or None
        Remembered for rows in memory; None: computed again in every pass.
    """

    at: Evaluate
    held: BoolArray | None

    def with_columns(self, other: Sides, columns: BoolArray) -> Sides:
        """Return these sides with some columns of others."""
        mine, theirs = self.at, other.at
        at = Evaluate(mine.loss, np.where(columns, theirs.w, mine.w), np.where(columns, theirs.b, mine.b))
        if self.held is None or other.held is None:
            return Sides(at, None)
        return Sides(at, np.where(columns, other.held, self.held))

    def of(self, block: RowBlock, columns: IntArray) -> BoolArray | None:
        """Return which rows of a block are active in some columns; None: all of them."""
        if self.at.loss == Loss.SQUARED:
            return None
        if self.held is not None:
            return self.held[block.first : block.first + block.costs.size, columns]
        decision = times(in_float64(block.Z), self.at.w[:, columns]) + self.at.b[columns]
        return slack(block.targets[:, columns], decision, self.at.loss) != 0.0


@dataclass(frozen=True, eq=False)
class Product(Totals):
    """sum over active rows of C_i z_i (z_i'v - shift), of shape (n, q)."""

    in_w: FloatArray


@dataclass(frozen=True, eq=False)
class Multiply:
    """The task of a pass that needs products of the Hessian with some vectors.

    Parameters
    ----------
    sides : Sides
    V : ndarray of shape (n, q)
    shift : ndarray of shape (q,)
    columns : ndarray of int of shape (q,)
        The column of targets whose active rows each vector is meant for.
    """

    sides: Sides
    V: FloatArray
    shift: FloatArray
    columns: IntArray

    def __call__(self, block: RowBlock) -> Product:
        """Return the sums over one block."""
        active = self.sides.of(block, self.columns)
        if self.columns.size == 1 and _is_worth_compiling(block):
            return Product(self._compiled(block, active))
        Z = in_float64(block.Z)
        along = times(Z, self.V) - self.shift
        along *= block.costs[:, None] if active is None else block.costs[:, None] * active
        return Product(times(Z.T, along))

    def _compiled(self, block: RowBlock, active: BoolArray | None) -> FloatArray:
        from squaresvm.problem._loops import multiply_rows, multiply_sparse

        Z, v, out = block.Z, np.ascontiguousarray(self.V[:, 0]), np.zeros(self.V.shape[0])
        rows = np.arange(block.costs.size) if active is None else np.flatnonzero(active)
        given = rows, np.ascontiguousarray(block.costs), v, float(self.shift[0]), out
        if sp.issparse(Z):
            multiply_sparse(Z.data, Z.indices, Z.indptr, *given)
        else:
            multiply_rows(Z, *given)
        return out[:, None]


def _is_worth_compiling(block: RowBlock) -> bool:
    return block.compiled or (sp.issparse(block.Z) and block.Z.nnz >= _MANY_NUMBERS and is_compiled())
