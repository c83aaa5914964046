"""The nonlinear proximal SVM's kernel K W K', where K is the kernel of the rows and W their weights."""

from __future__ import annotations

import numpy as np

from squaresvm.operators.stored import StoredOperator
from squaresvm.rows.chunks import Features, dropped
from squaresvm.runtime.memory import row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

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

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K (W (K b)): two products with K, and K W K' itself is needed by the factor only."""
        return self.inner.matmul(self.weights[:, None] * self.inner.matmul(b))

    def rows_times(self, rows: IntArray, b: FloatArray) -> FloatArray:
        """Return (K W K')[rows] b, for a few rows."""
        return self.inner.rows_times(rows, self.weights[:, None] * self.inner.matmul(b))

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return the sum of |K_il w_l K_lj b_j| over j and l."""
        return self.inner.magnitude(self.weights[:, None] * self.inner.magnitude(b))

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return W K coefficients, the coefficients of k(x_i, .) in f."""
        return self.weights[:, None] * self.inner.matmul(coefficients)

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients, for coefficients that `expand` returned."""
        return self.inner.cross(X, coefficients)

    def without(self, gone: IntArray, X: Features) -> ProximalOperator:
        """Return the operator of the other rows, and landmarks; it has no store yet."""
        return ProximalOperator(self.inner.without(gone, X), dropped(self.weights, gone))

    def with_landmarks(
        self, X: Matrix, weights: FloatArray
    ) -> tuple[ProximalOperator, FloatArray, FloatArray]:
        """Return the operator with new rows, which are landmarks too, of the given weights.

        With it come K W K' between held and new rows, and of the new rows.
        """
        held = self.n_rows
        inner, cross, corner = self.inner.joined(X)
        both = ProximalOperator(inner, np.concatenate([self.weights, weights]))
        product = inner.matmul(both.weights[:, None] * np.vstack([cross, corner]))
        return both, product[:held], product[held:]

    def private(self) -> ProximalOperator:
        """Return the operator over a K of its own."""
        return ProximalOperator(self.inner.private(), self.weights)

    def clear(self, rows: IntArray) -> None:
        """Write zeros where these rows were in the store of K, and over K W K', which they are all over."""
        self.inner.clear(rows)
        if self._store is not None:
            self._store.erase()
