"""The diagonal of inv(H) from a Cholesky factor H = L L': of all rows, of some, or between bounds.

inv(H)_ii is the squared norm of column i of inv(L), which starts at row i: blocks of columns need no second
m x m matrix. Bounds take one reading of L. From row i on, H has the Schur complement S = L_22 L_22', and the
first entry of its inverse is inv(H)_ii. Where H >= D for a diagonal D, so that S >= D_22, the first entries
of D^-1/2 S D^-1/2 and of its square,

    a = L_ii^2 / D_i,    a c    with    c = sum_{j >= i} L_ji^2 / D_j,

bound it by the rules of Gauss and of Gauss and Radau (Golub and Meurant, 2010, chapter 6):

    1 / a  <=  D_i inv(H)_ii  <=  1 - (a - 1)^2 / (a (c - 1))                                            (1)
"""

from __future__ import annotations

import numpy as np

from squaresvm.linalg.blas import multiply_add, solve_triangular_in_place
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import FloatArray, IntArray

__all__ = ["diagonal_bounds", "diagonal_of_inverse"]

#: Bytes of columns that are solved for together: memory that is touched for the first time is dear.
_BYTES = 2**24
#: Rows and columns of L that are worked on together.
_PANEL = 128


def diagonal_of_inverse(lower: FloatArray, columns: IntArray) -> FloatArray:
    """Return some entries of the diagonal of inv(L L').

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        Only the lower triangle is read.
    columns : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.factors.inverse_diagonal import diagonal_of_inverse
    >>> diagonal_of_inverse(np.array([[2.0, 0.0], [1.0, 0.5]], order="F"), np.array([1, 0]))
    array([4.  , 1.25])
    """
    m, order = lower.shape[0], np.argsort(columns, kind="stable")
    values, ascending = np.empty(columns.size), columns[order]
    for part in row_blocks(columns.size, m, _BYTES):
        values[order[part]] = _column_squares(lower, ascending[part])
    return values


def _column_squares(lower: FloatArray, columns: IntArray) -> FloatArray:
    """Return squared norms of columns of inv(L), which are given in ascending order."""
    first = int(columns[0])
    lower, columns = lower[first:, first:], columns - first
    m = lower.shape[0]
    unit = np.zeros((m, columns.size), order="F")
    unit[columns, np.arange(columns.size)] = 1.0
    start = 0
    while start < m:
        # Nothing is done above the diagonal, where columns are zero; once all have begun, the rest at once.
        begun = int(np.searchsorted(columns, start + _PANEL))
        stop = min(start + _PANEL, m) if begun < columns.size else m
        solve_triangular_in_place(lower[start:stop, start:stop], unit[start:stop, :begun])
        if stop < m:
            multiply_add(unit[stop:, :begun], lower[stop:, start:stop], unit[start:stop, :begun], alpha=-1.0)
        start = stop
    return np.asarray(np.einsum("ji,ji->j", unit.T, unit.T))


def diagonal_bounds(lower: FloatArray, ridge: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds (1) on the diagonal of inv(L L').

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        Only the lower triangle is read.
    ridge : ndarray of shape (m,)
        D: L L' - diag(D) is positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.factors.inverse_diagonal import diagonal_bounds
    >>> H = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> diagonal_bounds(np.linalg.cholesky(H), np.ones(2))
    (array([0.5       , 0.66666667]), array([0.66666667, 0.66666667]))
    """
    m = lower.shape[0]
    a, c = np.square(np.diagonal(lower)) / ridge, np.empty(m)
    for start in range(0, m, _PANEL):
        stop = min(start + _PANEL, m)
        corner, below = np.tril(lower[start:stop, start:stop]), lower[stop:, start:stop].T
        c[start:stop] = np.square(corner.T) @ (1.0 / ridge[start:stop])
        c[start:stop] += np.einsum("ij,ij,j->i", below, below, 1.0 / ridge[stop:])
    least = 1.0 / a
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = 1.0 - (a - 1.0) ** 2 / (a * (c - 1.0))
    # Rows that K does not tie to any other have a = c, and without K at all a = c = 1.
    most = np.where(np.isfinite(most), np.clip(most, least, 1.0), 1.0)
    return least / ridge, most / ridge
