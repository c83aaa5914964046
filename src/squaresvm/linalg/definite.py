"""Small definite systems, of as many rows as come or go at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from squaresvm.linalg.lapack import NotPositiveDefiniteError, cholesky_in_place
from squaresvm.typing import FloatArray

__all__ = [
    "NotPositiveSemidefiniteError",
    "cholesky_with_jitter",
    "lower_root",
    "solve_definite",
    "triangular_inverse",
]


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


_EPS = float(np.finfo(np.float64).eps)
#: Powers of ten, from m eps max|H_ii| upwards, that count as rounding.
_STEPS = 4


class NotPositiveSemidefiniteError(ValueError):
    """K + diag(1/C) has a negative eigenvalue: the problem is not convex and has no least point.

    Parameters
    ----------
    row : int, optional
        Where that was first seen.
    """

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row

    def __str__(self) -> str:
        """Return what is wrong, and what to do."""
        seen = "" if self.row is None else f" (first seen at row {self.row})"
        return (
            f"the kernel matrix plus diag(1/C) is not positive definite{seen}, so the problem is not convex: "
            "choose a positive semidefinite kernel, or a smaller C"
        )


def cholesky_with_jitter(
    matrix: FloatArray, diagonal: FloatArray, refill: Callable[[], object], scale: float | None = None
) -> float:
    """Factor `matrix` in its lower triangle; where that fails for rounding alone, with a jitter.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), Fortran-ordered part of a buffer
        Its strict lower triangle is set, its diagonal is not.
    diagonal : ndarray of shape (m,)
        The diagonal.
    refill : callable
        Sets the strict lower triangle again after a failed attempt.
    scale : float, optional
        Size of the entries that rounding is measured by; the largest of the diagonal by default.

    Returns
    -------
    float
        What was added to the diagonal, 0.0 as a rule.

    Raises
    ------
    NotPositiveSemidefiniteError
        The matrix has a negative eigenvalue that is more than rounding.
    """
    m = diagonal.shape[0]
    size = float(np.abs(diagonal).max(initial=0.0)) if scale is None else scale
    rounding = _EPS * m * size
    row = 0
    for jitter in (0.0, *(rounding * 10.0**step for step in range(_STEPS))):
        if jitter:
            refill()
        matrix[np.diag_indices(m)] = diagonal + jitter
        try:
            cholesky_in_place(matrix)
        except NotPositiveDefiniteError as error:
            row = error.row
        else:
            return jitter
    raise NotPositiveSemidefiniteError(row)
