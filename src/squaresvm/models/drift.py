"""Drift between full checks: the residual of all rows at once, through random combinations of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.problem import Problem
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray

__all__ = ["COMBINATIONS", "Watch"]

#: Random combinations of all rows. One of them is less than a tenth of the residual's norm with probability
#: 0.08, all four with probability 4e-5.
COMBINATIONS = 4
#: So many times the largest combination must be within tol, or all rows are looked at one by one.
_MARGIN = 10.0
#: Nobody may know the signs beforehand; nothing but when to look closer depends on them.
_RANDOM = np.random.default_rng()


@dataclass(frozen=True, eq=False)
class Watch:
    """Random signs V and K V, kept up to date while rows come and go.

    With r = K beta + beta/C + b - y the defect of all rows,

        V'r = (K V)'beta + V'(beta/C + b - y)                                                         (1)

    costs O(m) where r itself costs O(m^2). V has independent random signs, so E |v'r|^2 = |r|^2 for each
    column v, and |r|_inf <= |r|: a factor that has drifted anywhere is seen, whichever rows it spoilt.

    Parameters
    ----------
    signs : ndarray of shape (m, q)
        V.
    products : ndarray of shape (m, q)
        K V.
    """

    signs: FloatArray
    products: FloatArray

    @staticmethod
    def draw(n_rows: int) -> FloatArray:
        """Return random signs for so many rows."""
        return np.asarray(_RANDOM.choice([-1.0, 1.0], size=(n_rows, COMBINATIONS)), dtype=np.float64)

    def without(self, gone: IntArray, columns: FloatArray) -> Watch:
        """Return the watch over the other rows.

        Parameters
        ----------
        gone : ndarray
            Positions of rows that leave.
        columns : ndarray of shape (m, gone)
            K between all rows and those.
        """
        left = self.products - columns @ self.signs[gone]
        return Watch(dropped(self.signs, gone), dropped(left, gone))

    def joined(self, cross: FloatArray, corner: FloatArray) -> Watch:
        """Return the watch over these rows and new ones.

        Parameters
        ----------
        cross : ndarray of shape (m, new)
            K between the rows held and the new ones.
        corner : ndarray of shape (new, new)
            K of the new rows.
        """
        new = self.draw(corner.shape[0])
        held = self.products + cross @ new
        return Watch(np.vstack([self.signs, new]), np.vstack([held, cross.T @ self.signs + corner @ new]))

    def residual(self, problem: Problem, solution: Solution) -> float:
        """Return the largest combination (1), scaled like the residual, or the violation by the bias."""
        beta = solution.beta
        assert beta is not None
        rest = problem.ridge[:, None] * beta + solution.bias - problem.targets
        combined = self.products.T @ beta + self.signs.T @ rest
        return problem.scaled_residual(np.abs(combined).max(axis=0), solution)

    def is_beyond_doubt(self, residual: float, tol: float) -> bool:
        """Return whether the residual of every row is within tol, given what the combinations say."""
        return _MARGIN * residual <= tol
