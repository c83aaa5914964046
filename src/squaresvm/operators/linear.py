"""The linear kernel: K = Z Z', never formed."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from squaresvm.kernels import Kernel, inner_products
from squaresvm.linalg.products import times
from squaresvm.operators.dense import DenseOperator
from squaresvm.operators.single import SingleKernel
from squaresvm.operators.store import KernelStore
from squaresvm.runtime.memory import row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["LinearOperator", "pivoted_features"]

#: Rows whose rounding is computed exactly, by K itself, out of those where a bound is largest.
_EXACT_ROWS = 16


class LinearOperator:
    """K = Z Z' with the rows themselves as Z.

    Parameters
    ----------
    X : array or CSR matrix of shape (m, n)
    """

    def __init__(self, X: Matrix) -> None:
        self.X = X

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.X.shape[0])

    @property
    def features(self) -> Matrix:
        """The rows themselves."""
        return self.X

    def full(self) -> FloatArray | None:
        """Return None: K is never formed."""
        return None

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return None: products in float64 are at hand."""
        return None

    def store(self) -> KernelStore:
        """Return K in a buffer, formed now: whoever works on features has no need of it."""
        return DenseOperator(Kernel("linear"), self.X).store()

    @property
    def slots(self) -> IntArray:
        """Slot of each row in that buffer."""
        return np.arange(self.n_rows)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        return Kernel("linear").diagonal(self.X)

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return Z (Z' b)."""
        return times(self.X, times(self.X.T, b))

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| in the rows where |Z| |Z|' |b| is largest, 0 in the others.

        All rows would cost as much as K itself, and only the largest value is of interest.
        """
        size = np.abs(b)
        bound = times(abs(self.X), times(abs(self.X).T, size))
        total = np.zeros_like(b)
        count = min(_EXACT_ROWS, self.n_rows)
        for column in range(b.shape[1]):
            rows = np.argpartition(bound[:, column], -count)[-count:]
            for part in row_blocks(self.n_rows, count):
                near = np.abs(inner_products(self.X[part], self.X[rows]))
                total[rows, column] += size[part, column] @ near
        return total

    def rows_times(self, rows: IntArray, b: FloatArray) -> FloatArray:
        """Return K[rows] b, for a few rows."""
        return times(self.X[rows], times(self.X.T, b))

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        return inner_products(self.X[rows], self.X[columns])

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f: the multipliers themselves."""
        return coefficients

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return X Z' coefficients."""
        return times(X, times(self.X.T, coefficients))


def pivoted_features(K: FloatArray) -> FloatArray:
    """Return Z of as many columns as K has rank in floating point, by a Cholesky factor with pivoting.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Positive semidefinite.

    Returns
    -------
    ndarray of shape (m, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.operators.linear import pivoted_features
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> Z = pivoted_features(X @ X.T)
    >>> Z.shape, bool(np.allclose(Z @ Z.T, X @ X.T))
    ((6, 2), True)
    """
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(K, lower=1)
    Z = np.empty((K.shape[0], rank))
    Z[pivots - 1] = np.tril(factor)[:, :rank]
    return Z
