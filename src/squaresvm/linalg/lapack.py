"""LAPACK on parts of one Fortran-ordered buffer, in place; arguments as in :mod:`squaresvm.linalg.blas`.

Beside it are small definite systems, of as many rows as come or go at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import scipy.linalg

from squaresvm.linalg.blas import (
    char,
    gram_update,
    integer,
    matrix,
    multiply_add,
    product,
    routine,
    solve_triangular_in_place,
)
from squaresvm.typing import FloatArray, IntArray

__all__ = [
    "PANEL",
    "NotPositiveDefiniteError",
    "NotPositiveSemidefiniteError",
    "cholesky_in_place",
    "cholesky_with_jitter",
    "inverse_columns",
    "invert_cholesky_in_place",
    "invert_triangular_in_place",
    "lower_root",
    "solve_definite",
    "square_triangular_in_place",
    "triangular_inverse",
    "tridiagonalise_in_place",
]

#: Rows handed to one LAPACK call. The OpenBLAS inside current NumPy and SciPy wheels crashes in a
#: threaded ``dpotrf`` above some 15,500 rows, so larger matrices go through panels of this many.
PANEL = 4096
#: Columns that LAPACK reduces together, for the size of its work space.
_BLOCK = 64
#: Rows of a panel where columns of the inverse are solved for.
_COLUMN_PANEL = 512


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A Cholesky factorisation met a pivot that is not positive.

    Parameters
    ----------
    row : int
        Row of the pivot.
    """

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(f"the leading minor of order {row + 1} is not positive definite")


def _factor_panel(a: FloatArray, first_row: int) -> None:
    info = ctypes.c_int(0)
    pointer, leading = matrix(a)
    routine("dpotrf")(char("L"), integer(a.shape[0]), pointer, leading, ctypes.byref(info))
    if info.value > 0:
        raise NotPositiveDefiniteError(first_row + info.value - 1)


def cholesky_in_place(a: FloatArray, panel: int | None = None) -> None:
    """Overwrite the lower triangle of `a` by L, where a = L L'; the strict upper triangle is left.

    Parameters
    ----------
    a : ndarray of shape (m, m), Fortran-ordered part of a buffer
        Symmetric, only the lower triangle is read.
    panel : int, default=PANEL
        Rows handed to LAPACK at once.

    Raises
    ------
    NotPositiveDefiniteError
        The lower triangle is then partly overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.lapack import cholesky_in_place
    >>> a = np.array([[4.0, 7.0], [2.0, 2.0]], order="F")
    >>> cholesky_in_place(a)
    >>> a
    array([[2., 7.],
           [1., 1.]])
    """
    m, panel = a.shape[0], panel or PANEL
    for start in range(0, m, panel):
        stop = min(start + panel, m)
        diagonal = a[start:stop, start:stop]
        _factor_panel(diagonal, start)
        below = a[stop:, start:stop]
        if below.shape[0]:
            solve_triangular_in_place(diagonal, below, side="right", transpose=True)
        # Right-looking: what the panel leaves of the trailing matrix, one block column at a time.
        for left in range(stop, m, panel):
            right = min(left + panel, m)
            rows = a[left:right, start:stop]
            gram_update(a[left:right, left:right], rows, alpha=-1.0)
            if right < m:
                multiply_add(a[right:, left:right], a[right:, start:stop], rows.T, alpha=-1.0)


def inverse_columns(lower: FloatArray, columns: IntArray) -> FloatArray:
    """Return columns of inv(L), Fortran-ordered; nothing is done above their diagonal, where they are zero.

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        Only the lower triangle is read.
    columns : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.lapack import inverse_columns
    >>> inverse_columns(np.array([[2.0, 0.0], [1.0, 4.0]], order="F"), np.array([0]))
    array([[ 0.5  ],
           [-0.125]])
    """
    m, order = lower.shape[0], np.argsort(columns, kind="stable")
    ascending = columns[order]
    sorted_out = np.zeros((m, columns.size), order="F")
    sorted_out[ascending, np.arange(columns.size)] = 1.0
    for start in range(0, m, _COLUMN_PANEL):
        stop = min(start + _COLUMN_PANEL, m)
        begun = sorted_out[:, : np.searchsorted(ascending, stop)]
        if begun.size:
            solve_triangular_in_place(lower[start:stop, start:stop], begun[start:stop])
            multiply_add(begun[stop:], lower[stop:, start:stop], begun[start:stop], alpha=-1.0)
    if np.array_equal(ascending, columns):
        return sorted_out
    out = np.empty_like(sorted_out)
    out[:, order] = sorted_out
    return out


def invert_cholesky_in_place(lower: FloatArray, panel: int | None = None) -> None:
    """Overwrite the Cholesky factor in the lower triangle by the lower triangle of inv(L L').

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        The strict upper triangle is left as it is.
    panel : int, default=PANEL
        Rows handed to LAPACK at once.
    """
    invert_triangular_in_place(lower, panel)
    square_triangular_in_place(lower, panel)


def invert_triangular_in_place(lower: FloatArray, panel: int | None = None) -> None:
    """Overwrite the lower triangle L by inv(L)."""
    m, panel = lower.shape[0], panel or PANEL
    # Block row by block row: inv(L)_ij = -inv(L_ii) sum_{k=j}^{i-1} L_ik inv(L)_kj.
    for start in range(0, m, panel):
        stop = min(start + panel, m)
        diagonal = lower[start:stop, start:stop]
        if start:
            row = np.zeros((stop - start, start), order="F")
            for left in range(0, start, panel):
                right = min(left + panel, start)
                block = np.tril(lower[left:right, left:right])
                multiply_add(row[:, left:right], lower[start:stop, left:right], block, alpha=-1.0)
                if right < start:
                    multiply_add(
                        row[:, left:right],
                        lower[start:stop, right:start],
                        lower[right:start, left:right],
                        alpha=-1.0,
                    )
            solve_triangular_in_place(diagonal, row)
            lower[start:stop, :start] = row
        _lapack_triangle("dtrtri", diagonal, unit_flag=True)


def square_triangular_in_place(lower: FloatArray, panel: int | None = None) -> None:
    """Overwrite the lower triangle L by that of L'L, block column by block column from the top."""
    m, panel = lower.shape[0], panel or PANEL
    for start in range(0, m, panel):
        stop = min(start + panel, m)
        below = lower[stop:, start:stop]
        diagonal = lower[start:stop, start:stop]
        for left in range(0, start, panel):
            right = min(left + panel, start)
            block = product(np.tril(diagonal).T, lower[start:stop, left:right])
            if stop < m:
                multiply_add(block, below.T, lower[stop:, left:right])
            lower[start:stop, left:right] = block
        _lapack_triangle("dlauum", diagonal)
        if stop < m:
            gram_update(diagonal, np.asfortranarray(below.T))


def _lapack_triangle(name: str, a: FloatArray, unit_flag: bool = False) -> None:
    info = ctypes.c_int(0)
    pointer, leading = matrix(a)
    flags = (char("L"), char("N")) if unit_flag else (char("L"),)
    routine(name)(*flags, integer(a.shape[0]), pointer, leading, ctypes.byref(info))
    if info.value > 0:
        raise NotPositiveDefiniteError(info.value - 1)


def tridiagonalise_in_place(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Overwrite the symmetric `a` by an orthogonal Q, where a = Q T Q', and return T.

    Parameters
    ----------
    a : ndarray of shape (m, m), Fortran-ordered part of a buffer
        Only the lower triangle is read.

    Returns
    -------
    diagonal : ndarray of shape (m,)
        Of T.
    beside : ndarray of shape (m - 1,)
        The entries of T next to its diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.lapack import tridiagonalise_in_place
    >>> a = np.array([[2.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]], order="F")
    >>> diagonal, beside = tridiagonalise_in_place(a)
    >>> np.round(np.abs(beside), 12)
    array([5., 0.])
    """
    m = a.shape[0]
    pointer, leading = matrix(a)
    diagonal, beside, scale = np.empty(m), np.empty(max(m - 1, 0)), np.empty(max(m - 1, 1))
    work = np.empty(_BLOCK * max(m, 1))
    info = ctypes.c_int(0)
    tail = (ctypes.c_void_p(work.ctypes.data), integer(work.size), ctypes.byref(info))
    outputs = [ctypes.c_void_p(part.ctypes.data) for part in (diagonal, beside, scale)]
    routine("dsytrd")(char("L"), integer(m), pointer, leading, *outputs, *tail)
    routine("dorgtr")(char("L"), integer(m), pointer, leading, outputs[2], *tail)
    return diagonal, beside


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
