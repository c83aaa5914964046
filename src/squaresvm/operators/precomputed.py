"""A kernel matrix that the caller computed."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from squaresvm.operators.blocks import row_blocks
from squaresvm.operators.store import KernelStore
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["PrecomputedOperator", "check_symmetric"]

#: Asymmetry, relative to the largest entry, that is taken for rounding.
_ASYMMETRY = 1e-8


def check_symmetric(K: FloatArray) -> None:
    """Raise a ValueError unless K is square and, but for rounding, symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"a precomputed kernel must be a square matrix of the training rows; got shape {K.shape}"
        )
    for rows in row_blocks(K.shape[0], K.shape[1]):
        difference = np.abs(K[rows] - K[:, rows].T)
        worst = float(difference.max(initial=0.0))
        if worst > _ASYMMETRY * float(np.abs(K[rows]).max(initial=0.0)):
            i, j = np.unravel_index(int(difference.argmax()), difference.shape)
            i += rows.start
            raise ValueError(
                f"a precomputed kernel must be symmetric; K[{i}, {j}] = {K[i, j]:g} but "
                f"K[{j}, {i}] = {K[j, i]:g}"
            )


class PrecomputedOperator:
    """K as given, referenced and never written to.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Symmetric.
    """

    features: Matrix | None = None

    def __init__(self, K: FloatArray) -> None:
        self.K = K

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.K.shape[0])

    @cached_property
    def _store(self) -> KernelStore:
        K = self.K
        return KernelStore(K.shape[0], lambda rows, columns: K[rows, columns])

    def store(self) -> KernelStore:
        """Return a copy of K whose lower triangle may be lent: the caller's matrix is not ours."""
        return self._store

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        return np.array(np.diagonal(self.K), dtype=np.float64)

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b."""
        return np.asarray(self.K @ b, dtype=np.float64)

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        size = np.abs(b)
        total = np.empty_like(b)
        for rows in row_blocks(self.n_rows, self.n_rows):
            total[rows] = np.abs(self.K[rows]) @ size
        return total

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        return np.asarray(self.K[rows][:, columns], dtype=np.float64)

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f: the multipliers themselves."""
        return coefficients

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return X coefficients: the columns of X are the kernel values with the rows held."""
        return np.asarray(X @ coefficients, dtype=np.float64)
