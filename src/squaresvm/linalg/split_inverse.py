"""A Cholesky factor on its way to the inverse: in place, some columns at a time, and of use all the while.

With the rows parted in two, H = L L' and N = inv(H) are

    L = [L11,  0 ]     N22 = inv(L22 L22'),    N21 = -N22 W,    N11 = inv(L11 L11') - W' N21             (1)
        [L21, L22],    where W = L21 inv(L11)

so the last columns of N need nothing of the first ones of L but their own. Going from the last column to the
first, one triangle holds [L11; L21, N22], and with it N b for any b = (b1, b2):

    y = inv(L11) b1,    x2 = N22 (b2 - L21 y),    x1 = inv(L11)' (y - L21' x2)                           (2)

Where L11 is all there is, these are the two triangular solutions of a Cholesky factor; where it is nothing,
a product with the inverse.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from squaresvm.linalg.blas import multiply_add, product, symmetric_product
from squaresvm.linalg.lapack import (
    inverse_columns,
    invert_cholesky_in_place,
    solve_triangular_in_place,
)
from squaresvm.typing import FloatArray, IntArray

__all__ = ["columns_of_split", "invert_further", "solve_split", "split_after"]

#: Columns that go through a product with N22 together: fewer are slow in BLAS, more cost more beside it.
_PANEL = 192
#: Columns come in multiples of this, which BLAS is fastest at.
_GRAIN = 16


def split_after(size: int, split: int, share: float, least: int) -> int:
    """Return where the split stands after another share of the whole inversion.

    What is done of it, in multiplications, is the cube of what is done of the columns.

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
    >>> split_after(4000, 4000, 0.125, 128), split_after(4000, 96, 0.125, 128)
    (2000, 0)
    """
    done = 1.0 - split / size
    columns = size * np.cbrt(min(done**3 + share, 1.0)) - (size - split)
    columns = max(int(np.ceil(columns / _GRAIN)) * _GRAIN, least)
    return max(split - columns, 0)


def invert_further(room: FloatArray, split: int, start: int) -> None:
    """Move the split of a lower triangle from `split` to `start`.

    Parameters
    ----------
    room : ndarray of shape (m, m)
        [L11; L21, N22] with N22 from row and column `split` on; its strict upper triangle is left as it is.
    split : int
        m: a whole Cholesky factor.
    start : int
        Where the inverse begins afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.split_inverse import invert_further
    >>> room = np.array([[2.0, 0.0], [1.0, 0.5]], order="F")  # L of H = [4, 2; 2, 1.25]
    >>> invert_further(room, 2, 1)
    >>> room[1, 1]
    np.float64(4.0)
    >>> invert_further(room, 1, 0)
    >>> np.tril(room)
    array([[ 1.25,  0.  ],
           [-2.  ,  4.  ]])
    """
    if split == room.shape[0]:
        invert_cholesky_in_place(room[start:, start:])
        return
    panels = -(-(split - start) // _PANEL)
    width = -(-(split - start) // (panels * _GRAIN)) * _GRAIN
    for stop, first in pairwise([*range(split, start, -width), start]):
        _invert_panel(room, first, stop)


def _invert_panel(room: FloatArray, start: int, stop: int) -> None:
    """Invert the columns from `start` to `stop` by (1), where all behind them are inverted."""
    corner, below = room[start:stop, start:stop], room[stop:, start:stop]
    W = np.array(below, order="F")
    solve_triangular_in_place(corner, W, side="right")
    columns = symmetric_product(room[stop:, stop:], W, lower=True)
    np.negative(columns, out=columns)
    invert_cholesky_in_place(corner)
    pull = product(W.T, columns)
    lower = np.tri(stop - start, dtype=bool)
    np.subtract(corner, pull, out=corner, where=lower)
    below[...] = columns


def solve_split(room: FloatArray, split: int, rhs: FloatArray) -> None:
    """Overwrite `rhs`, of shape (m, k) and Fortran-ordered, by N rhs: equation (2)."""
    first, last = rhs[:split], rhs[split:]
    if split:
        solve_triangular_in_place(room[:split, :split], first)
        multiply_add(last, room[split:, :split], first, alpha=-1.0)
    if last.size:
        last[...] = symmetric_product(room[split:, split:], last, lower=True)
    _finish(room, split, rhs)


def _finish(room: FloatArray, split: int, out: FloatArray) -> None:
    """Overwrite (y, x2) by (x1, x2) of (2)."""
    if split:
        multiply_add(out[:split], room[split:, :split].T, out[split:], alpha=-1.0)
        solve_triangular_in_place(room[:split, :split], out[:split], transpose=True)


def columns_of_split(room: FloatArray, split: int, columns: IntArray) -> FloatArray:
    """Return columns of N, Fortran-ordered; those behind the split are there to read but for x1.

    Parameters
    ----------
    room : ndarray of shape (m, m)
    split : int
    columns : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.split_inverse import columns_of_split
    >>> columns_of_split(np.array([[2.0, 0.0], [1.0, 4.0]], order="F"), 1, np.array([1]))
    array([[-2.],
           [ 4.]])
    """
    out = np.zeros((room.shape[0], columns.size), order="F")
    before = np.flatnonzero(columns < split) if split else columns[:0]
    if before.size:
        halfway = inverse_columns(room[:split, :split], columns[before])
        pull = symmetric_product(room[split:, split:], product(room[split:, :split], halfway), lower=True)
        out[:split, before], out[split:, before] = halfway, -pull
    for position, column in enumerate(columns.tolist()):
        if column >= split:
            out[split:column, position] = room[column, split:column]
            out[column:, position] = room[column:, column]
    _finish(room, split, out)
    return out
