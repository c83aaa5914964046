"""Small definite systems, of as many rows as come or go at once."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from squaresvm.typing import FloatArray

__all__ = ["lower_root", "solve_definite", "triangular_inverse"]


def solve_definite(matrix: FloatArray, rhs: FloatArray) -> FloatArray:
    """Return the solution of a small definite system; LinAlgError where it is not definite."""
    if rhs.shape[0] == 1:
        # One row at a time is the ordinary request, and SciPy's checks would take most of its time.
        if not matrix[0, 0] > 0.0:
            raise np.linalg.LinAlgError("the system is not definite")
        return rhs / matrix[0, 0]
    solution: FloatArray = scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, lower=True), rhs)
    if not np.isfinite(solution).all():
        raise np.linalg.LinAlgError("the system is singular")
    return solution


def lower_root(matrix: FloatArray) -> FloatArray:
    """Return the Cholesky factor of a small definite matrix; LinAlgError where it is not definite."""
    if matrix.shape[0] == 1:
        if not matrix[0, 0] > 0.0:
            raise np.linalg.LinAlgError("the matrix is not definite")
        return np.sqrt(matrix)
    root: FloatArray = scipy.linalg.cholesky(matrix, lower=True)
    return root


def triangular_inverse(root: FloatArray) -> FloatArray:
    """Return the inverse of a small triangular matrix: many columns of it are wanted at once."""
    if root.shape[0] == 1:
        return 1.0 / root
    inverse: FloatArray = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]), lower=True)
    return inverse
