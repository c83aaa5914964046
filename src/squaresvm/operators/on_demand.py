"""The kernel matrix of features, computed when asked for and never held whole."""

from __future__ import annotations

import os

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.operators.blocks import row_blocks
from squaresvm.operators.dense import DenseOperator
from squaresvm.operators.store import KernelStore
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["OnDemandOperator", "available_memory"]


def available_memory() -> float:
    """Return the bytes of memory that are free; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


class OnDemandOperator(DenseOperator):
    """K = k(X, X) by rows and blocks on demand: memory for some rows, where K would not fit.

    Whoever needs a factor still gets K whole, if it asks for the store and the memory is there.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
    """

    def __init__(self, kernel: Kernel, X: Matrix) -> None:
        super().__init__(kernel, X)

    @property
    def is_held(self) -> bool:
        """Whether somebody has asked for the store, so that K is there after all."""
        return self._store is not None

    def store(self) -> KernelStore:
        """Return K in a buffer, formed now; a MemoryError says what that takes where it cannot be had."""
        needed = 8 * self.n_rows**2
        if not self.is_held and needed > available_memory():
            raise MemoryError(
                f"the kernel matrix of {self.n_rows} rows takes {needed / 2**30:.1f} GB: take a solver that "
                "works on rows, such as '2smo', 'sesquismo' or 'substitution'"
            )
        return super().store()

    def full(self) -> FloatArray | None:
        """Return None, unless K is held after all."""
        return super().full() if self.is_held else None

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b, block by block, leaving out rows of b that are zero."""
        return super().matmul(b) if self.is_held else self.cross(self.X, b)

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        if self.is_held:
            return super().magnitude(b)
        size, out = np.abs(b), np.empty(b.shape)
        for part in row_blocks(self.n_rows, self.n_rows):
            out[part] = np.abs(self.kernel(self.X[part], self.X)) @ size
        return out

    def rows_times(self, rows: IntArray, b: FloatArray) -> FloatArray:
        """Return K[rows] b, for a few rows."""
        return super().rows_times(rows, b) if self.is_held else self.cross(self.X[rows], b)

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        if self.is_held:
            return super().block(rows, columns)
        everything = columns.size == self.n_rows and bool(np.all(np.diff(columns) == 1))
        return self.kernel(self.X[rows], self.X if everything else self.X[columns])

    def without(self, keep: BoolArray, X: Matrix) -> DenseOperator:
        """Return the operator of the rows kept, X; on the same store if there is one."""
        return super().without(keep, X) if self.is_held else OnDemandOperator(self.kernel, X)

    def joined(self, X: Matrix) -> tuple[DenseOperator, FloatArray, FloatArray]:
        """Return the operator of X, K between held and new rows, and K of the new rows."""
        if self.is_held:
            return super().joined(X)
        new = X[self.n_rows :]
        return OnDemandOperator(self.kernel, X), self.kernel(self.X, new), self.kernel(new, new)
