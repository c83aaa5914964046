"""The nonlinear proximal SVM's kernel K W K', where K is the kernel of the rows and W their weights."""

from __future__ import annotations

import numpy as np

from squaresvm.operators.blocks import row_blocks
from squaresvm.operators.stored import StoredOperator
from squaresvm.typing import FloatArray, Matrix

__all__ = ["ProximalOperator"]


class ProximalOperator(StoredOperator):
    """K W K' over another operator's K, equations (10) to (12) of the relaxed paper.

    The rows are landmarks too: f(x) = k(x, X) W K beta + b, so the coefficients of k(x_i, .) are W K beta.

    Parameters
    ----------
    inner : StoredOperator
        Holds K.
    weights : ndarray of shape (m,)
        Diagonal of W: under it a row of weight 2 equals the same row, and landmark, twice.
    """

    def __init__(self, inner: StoredOperator, weights: FloatArray) -> None:
        super().__init__(inner.n_rows)
        self.inner = inner
        self.weights = weights

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        everything = np.arange(self.n_rows)
        right = self.inner.block(everything, everything[columns]) * self.weights[:, None]
        out = np.empty((rows.stop - rows.start, right.shape[1]), order="F")
        for part in row_blocks(out.shape[0], self.n_rows):
            out[part] = self.inner.block(everything[rows][part], everything) @ right
        return out

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return W K coefficients, the coefficients of k(x_i, .) in f."""
        return self.weights[:, None] * self.inner.matmul(coefficients)

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients, for coefficients that `expand` returned."""
        return self.inner.cross(X, coefficients)
