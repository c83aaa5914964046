"""The nonlinear proximal SVM's kernel K W K', where K is the kernel of the rows and W their weights."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from squaresvm.operators.base import Operator
from squaresvm.operators.blocks import row_blocks
from squaresvm.operators.store import KernelStore
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["ProximalOperator"]


class ProximalOperator:
    """K W K' over another operator's K, equations (10) to (12) of the relaxed paper.

    The rows are landmarks too: f(x) = k(x, X) W K beta + b, so the coefficients of k(x_i, .) are W K beta.

    Parameters
    ----------
    inner : Operator
        Reaches K.
    weights : ndarray of shape (m,)
        Diagonal of W: under it a row of weight 2 equals the same row, and landmark, twice.
    """

    features: Matrix | None = None

    def __init__(self, inner: Operator, weights: FloatArray) -> None:
        self.inner = inner
        self.weights = weights

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return self.inner.n_rows

    @cached_property
    def _store(self) -> KernelStore:
        everything = np.arange(self.n_rows)

        def block(rows: slice, columns: slice) -> FloatArray:
            right = self.inner.block(everything, everything[columns])
            right *= self.weights[:, None]
            out = np.empty((rows.stop - rows.start, right.shape[1]), order="F")
            for part in row_blocks(out.shape[0], self.n_rows):
                chosen = everything[rows][part]
                out[part] = self.inner.block(chosen, everything) @ right
            return out

        return KernelStore(self.n_rows, block)

    def store(self) -> KernelStore:
        """Return K W K' in a buffer."""
        return self._store

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K W K'."""
        return self._store.diagonal

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K W K' b."""
        return self._store.matmul(b)

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |(K W K')_ij b_j| for each row and column of b."""
        return self._store.magnitude(b)

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return (K W K')[rows, columns]."""
        return self._store.block(rows, columns)

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return W K coefficients, the coefficients of k(x_i, .) in f."""
        return self.weights[:, None] * self.inner.matmul(coefficients)

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients, for coefficients that `expand` returned."""
        return self.inner.cross(X, coefficients)
