"""Small definite systems, of as many rows as come or go at once."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from squaresvm.typing import FloatArray

__all__ = ["solve_definite", "triangular_inverse"]


def solve_definite(matrix: FloatArray, rhs: FloatArray) -> FloatArray:
    """Return the solution of a small definite system; LinAlgError where it is not definite."""
    solution: FloatArray = scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, lower=True), rhs)
    if not np.isfinite(solution).all():
        raise np.linalg.LinAlgError("the system is singular")
    return solution


def triangular_inverse(root: FloatArray) -> FloatArray:
    """Return the inverse of a small triangular matrix: many columns of it are wanted at once."""
    inverse: FloatArray = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]), lower=True)
    return inverse
