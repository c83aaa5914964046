"""A Cholesky factor on its way to the inverse: in place, some columns at a time, and of use all the while.

With the rows parted in two, H = [H11, H12; H21, H22] = L L' and L = [L11, 0; L21, L22], let

    N11 = inv(L11 L11') = inv(H11),    Y = -L21 inv(L11) = -H21 inv(H11),    S = L22 L22'                (1)

S is the Schur complement of H11. One triangle holds [N11; Y, L22], and with it inv(H) b for any b = (b1, b2):

    x2 = inv(S) (b2 + Y b1),    x1 = N11 b1 + Y' x2                                                      (2)

Where N11 is nothing, these are the two triangular solutions of a Cholesky factor; where it is all there is, a
product with the inverse. The split moves from the first column to the last, by updates of low rank, which
BLAS is fast at however few the columns are.
"""

from __future__ import annotations

import numpy as np

from squaresvm.linalg.blas import gram_update, multiply_add, symmetric_product
from squaresvm.linalg.lapack import (
    inverse_columns,
    invert_cholesky_in_place,
    solve_triangular_in_place,
)
from squaresvm.typing import FloatArray, IntArray

__all__ = ["columns_of_split", "invert_further", "share_done", "solve_split", "split_after"]

#: Columns come in multiples of this, which BLAS is fastest at.
_GRAIN = 32


def share_done(size: int, split: int) -> float:
    """Return how much of the inversion is done, in multiplications.

    Examples
    --------
    >>> from squaresvm.linalg.split_inverse import share_done
    >>> share_done(4000, 0), share_done(4000, 1000), share_done(4000, 4000)
    (0.0, 0.0859375, 1.0)
    """
    columns = split / size
    return columns**2 * (3.0 - columns) / 2.0


def split_after(size: int, split: int, share: float, least: int) -> int:
    """Return where the split stands after another share of the whole inversion.

    Parameters
    ----------
    size : int
        Of the matrix.
    split : int
        Where the split stands now.
    share : float
        Of the work for the whole matrix.
    least : int
        Columns that are not worth parting.

    Examples
    --------
    >>> from squaresvm.linalg.split_inverse import split_after
    >>> split_after(4000, 0, 0.1, 96), split_after(4000, 3900, 0.1, 96)
    (1088, 4000)
    """
    goal, stop = share_done(size, split) + share, split + least
    while stop < size and share_done(size, stop) < goal:
        stop += _GRAIN
    return min(stop, size)


def invert_further(room: FloatArray, split: int, stop: int) -> None:
    """Move the split of a lower triangle from `split` to `stop`.

    Parameters
    ----------
    room : ndarray of shape (m, m)
        [N11; Y, L22] with L22 from row and column `split` on; its strict upper triangle is left as it is.
    split : int
        0: a whole Cholesky factor.
    stop : int
        m: the whole inverse, afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.split_inverse import invert_further
    >>> room = np.array([[2.0, 0.0], [1.0, 0.5]], order="F")  # L of H = [4, 2; 2, 1.25]
    >>> invert_further(room, 0, 1)
    >>> room[:, 0]
    array([ 0.25, -0.5 ])
    >>> invert_further(room, 1, 2)
    >>> np.tril(room)
    array([[ 1.25,  0.  ],
           [-2.  ,  4.  ]])
    """
    corner, below = room[split:stop, split:stop], room[stop:, split:stop]
    if split:
        # Rows of inv(L): what they are times their own transpose is what H11 gains by them.
        rows = room[split:stop, :split]
        solve_triangular_in_place(corner, rows)
        gram_update(room[:split, :split], rows.T)
        multiply_add(room[stop:, :split], below, rows, alpha=-1.0)
        solve_triangular_in_place(corner, rows, transpose=True)
    solve_triangular_in_place(corner, below, side="right", alpha=-1.0)
    invert_cholesky_in_place(corner)


def solve_split(room: FloatArray, split: int, rhs: FloatArray) -> None:
    """Overwrite `rhs`, of shape (m, k) and Fortran-ordered, by inv(H) rhs: equation (2)."""
    first, last = rhs[:split], rhs[split:]
    if split:
        multiply_add(last, room[split:, :split], first)
        first[...] = symmetric_product(room[:split, :split], first, lower=True)
    solve_triangular_in_place(room[split:, split:], last)
    _finish(room, split, rhs)


def _finish(room: FloatArray, split: int, out: FloatArray) -> None:
    """Overwrite (N11 b1, inv(L22) (b2 + Y b1)) by (x1, x2) of (2)."""
    solve_triangular_in_place(room[split:, split:], out[split:], transpose=True)
    multiply_add(out[:split], room[split:, :split].T, out[split:])


def columns_of_split(room: FloatArray, split: int, columns: IntArray) -> FloatArray:
    """Return columns of inv(H), Fortran-ordered: read, as far as they are there.

    Parameters
    ----------
    room : ndarray of shape (m, m)
    split : int
    columns : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.split_inverse import columns_of_split
    >>> columns_of_split(np.array([[0.25, 0.0], [-0.5, 0.5]], order="F"), 1, np.array([1]))
    array([[-2.],
           [ 4.]])
    """
    out = np.zeros((room.shape[0], columns.size), order="F")
    for position, column in enumerate(columns.tolist()):
        if column < split:
            out[:column, position] = room[column, :column]
            out[column:, position] = room[column:, column]
    if split == room.shape[0]:
        return out
    read = columns < split
    half = out[split:, read]
    solve_triangular_in_place(room[split:, split:], half)
    out[split:, read] = half
    out[split:, ~read] = inverse_columns(room[split:, split:], columns[~read] - split)
    _finish(room, split, out)
    return out
