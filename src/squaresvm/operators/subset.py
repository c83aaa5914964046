"""Some rows of another operator, in a store of their own."""

from __future__ import annotations

import numpy as np

from squaresvm.operators.base import Operator
from squaresvm.operators.stored import StoredOperator
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["SubsetOperator"]


class SubsetOperator(StoredOperator):
    """K[rows, rows] of a parent: what an active set needs a factor of.

    Parameters
    ----------
    parent : Operator
    rows : ndarray of shape (m,)
        Positions among the parent's rows.
    """

    def __init__(self, parent: Operator, rows: IntArray) -> None:
        super().__init__(rows.size)
        self.parent = parent
        self.rows = rows

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        return self.parent.block(self.rows[rows], self.rows[columns])

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return sum_i k(x, x_i) coefficients_i for each row x of X."""
        everything = np.zeros((self.parent.n_rows, coefficients.shape[1]))
        everything[self.rows] = coefficients
        return self.parent.cross(X, everything)

    def shrunk(self, keep: BoolArray) -> SubsetOperator:
        """Return the operator of the rows kept, on the same store; the slots of the others are cleared."""
        self._held().clear(self.slots[~keep])
        return self._sharing(SubsetOperator(self.parent, self.rows[keep]), self.slots[keep])

    def kept(self, keep: BoolArray) -> SubsetOperator:
        """Return the operator of the rows kept, on the same store; the others stay there until cleared."""
        return self._sharing(SubsetOperator(self.parent, self.rows[keep]), self.slots[keep])

    def clear_empty(self) -> None:
        """Write zeros into all slots that hold no row of this operator."""
        store = self._held()
        store.clear(np.setdiff1d(np.arange(store.size), self.slots))

    def grown(self, rows: IntArray) -> tuple[SubsetOperator, FloatArray, FloatArray]:
        """Return the operator with more rows of the parent, K between held and new, and K of the new."""
        cross, corner = self.parent.block(self.rows, rows), self.parent.block(rows, rows)
        slots = self._put(cross, corner)
        both = SubsetOperator(self.parent, np.concatenate([self.rows, rows]))
        return self._sharing(both, np.concatenate([self.slots, slots])), cross, corner

    def moved(self, parent: Operator, rows: IntArray) -> SubsetOperator:
        """Return the operator of the same rows under a parent that numbers them otherwise."""
        return self._sharing(SubsetOperator(parent, rows), self.slots)
