"""The kernel matrix of features, held whole."""

from __future__ import annotations

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.linalg.products import times
from squaresvm.operators.stored import StoredOperator
from squaresvm.rows.chunks import Chunks, Features, dropped
from squaresvm.runtime.memory import row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["DenseOperator"]


class DenseOperator(StoredOperator):
    """K = k(X, X), computed once, block by block, into one buffer.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n), or Chunks
    """

    def __init__(self, kernel: Kernel, X: Features) -> None:
        super().__init__(int(X.shape[0]))
        self.kernel = kernel
        self._rows = X

    @property
    def X(self) -> Matrix:
        """The rows in one matrix: put together when asked for, where they came in pieces."""
        return self._rows.whole if isinstance(self._rows, Chunks) else self._rows

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        return self.kernel(self.X[rows], self.X[columns])

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        return self.kernel.diagonal(self.X)

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients, in blocks, leaving out rows without coefficients."""
        rows = self.X
        used = np.flatnonzero(np.any(coefficients != 0.0, axis=1))
        if used.size < self.n_rows:
            rows, coefficients = rows[used], coefficients[used]
        out = np.zeros((X.shape[0], coefficients.shape[1]))
        for part in row_blocks(X.shape[0], used.size) if used.size else []:
            out[part] = times(self.kernel(X[part], rows), coefficients)
        return out

    def without(self, gone: IntArray, X: Features) -> DenseOperator:
        """Return the operator of the rest, X, on the same store."""
        return self._sharing(DenseOperator(self.kernel, X), dropped(self.slots, gone))

    def joined(self, X: Matrix) -> tuple[DenseOperator, FloatArray, FloatArray]:
        """Return the operator of X, these rows and new ones behind them, on the same store.

        With it come K between held and new rows, and K of the new rows.
        """
        new = X[self.n_rows :]
        cross, corner = self.kernel(self.X, new), self.kernel(new, new)
        slots = self._put(cross, corner)
        joined = self._sharing(DenseOperator(self.kernel, X), np.concatenate([self.slots, slots]))
        return joined, cross, corner
