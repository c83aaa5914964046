"""The kernel matrix of features, held whole."""

from __future__ import annotations

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.operators.blocks import row_blocks
from squaresvm.operators.precomputed import PrecomputedOperator
from squaresvm.operators.store import KernelStore
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["DenseOperator", "cross_product"]


def cross_product(kernel: Kernel, X: Matrix, rows: Matrix, coefficients: FloatArray) -> FloatArray:
    """Return k(X, rows) coefficients, in blocks, leaving out rows whose coefficients are all zero."""
    used = np.flatnonzero(np.any(coefficients != 0.0, axis=1))
    if used.size < coefficients.shape[0]:
        rows, coefficients = rows[used], coefficients[used]
    out = np.zeros((X.shape[0], coefficients.shape[1]))
    if used.size:
        for part in row_blocks(X.shape[0], used.size):
            out[part] = kernel(X[part], rows) @ coefficients
    return out


class DenseOperator:
    """K = k(X, X), computed once, block by block, into one buffer.

    The buffer takes one of two forms, whichever is asked for first: a :class:`KernelStore` that a factor
    shares, or the full symmetric matrix, of which blocks are cheap to take.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
    """

    features: Matrix | None = None

    def __init__(self, kernel: Kernel, X: Matrix) -> None:
        self.kernel = kernel
        self.X = X
        self._store: KernelStore | None = None
        self._full: PrecomputedOperator | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.X.shape[0])

    def store(self) -> KernelStore:
        """Return the buffer of K, with room for a factor."""
        if self._store is None:
            X, kernel = self.X, self.kernel
            self._store = KernelStore(X.shape[0], lambda rows, columns: kernel(X[rows], X[columns]))
        return self._store

    def _held(self) -> KernelStore | PrecomputedOperator:
        """Return K in the form it is held in; the full matrix where it is not held yet."""
        if self._store is not None:
            return self._store
        if self._full is None:
            self._full = PrecomputedOperator(self._full_matrix())
        return self._full

    def _full_matrix(self) -> FloatArray:
        m = self.n_rows
        K = np.empty((m, m))
        for rows in row_blocks(m, m):
            K[rows, rows.start :] = self.kernel(self.X[rows], self.X[rows.start :])
            K[rows.stop :, rows] = K[rows, rows.stop :].T
        return K

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        return self.kernel.diagonal(self.X)

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b."""
        return self._held().matmul(b)

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        return self._held().magnitude(b)

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        return self._held().block(rows, columns)

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f: the multipliers themselves."""
        return coefficients

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients."""
        return cross_product(self.kernel, X, self.X, coefficients)
