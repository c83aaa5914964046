"""Arrays without some of their rows: what every request to forget does to everything that is held."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np

from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Chunks", "Features", "dropped"]

#: One row out of so many, and more, leave by copying what is between them.
_FEW = 256


def dropped(values: Any, positions: IntArray) -> Any:
    """Return an array or CSR matrix without some of its rows: few leave between straight copies.

    Parameters
    ----------
    values : array or CSR matrix, one row each
    positions : ndarray
        Of the rows that leave, each once.

    Returns
    -------
    array or CSR matrix
        A copy; of one value for all rows, a view.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.chunks import dropped
    >>> dropped(np.array([5, 6, 7, 8]), np.array([2, 0]))
    array([6, 8])
    """
    count, is_sparse = values.shape[0], not isinstance(values, np.ndarray)
    if not is_sparse and values.strides == (0,):
        return values[: count - positions.size]
    if is_sparse or positions.size > count // _FEW + 1:
        keep = np.ones(count, dtype=bool)
        keep[positions] = False
        return values[keep]
    if positions.size == 1:
        row = int(positions[0])
        return np.concatenate([values[:row], values[row + 1 :]])
    edges = np.concatenate([[-1], np.sort(positions), [count]])
    return np.concatenate([values[a + 1 : b] for a, b in pairwise(edges.tolist())])


#: Bytes of a piece: copied in no time, and few pieces beside the rows of a kernel matrix that fits.
_PIECE_BYTES = 32 * 1024


class Chunks:
    """Rows of a matrix in several arrays, each its own: none is a view that would keep a row that left.

    Nothing in it changes, so what has been made from it by `without` shares the pieces that stayed.

    Parameters
    ----------
    parts : tuple of ndarray
        At least one, none without rows, with the same columns.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.chunks import Chunks
    >>> rest = Chunks.of(np.arange(6.0).reshape(3, 2)).without(np.array([1]))
    >>> rest.whole
    array([[0., 1.],
           [4., 5.]])
    """

    def __init__(self, parts: tuple[FloatArray, ...]) -> None:
        self.parts = parts
        self._stops = list(accumulate(map(len, parts)))

    @classmethod
    def of(cls, X: FloatArray) -> Chunks:
        """Return a copy of an array, in pieces."""
        at_once = max(1, _PIECE_BYTES // max(1, X.shape[1] * X.itemsize))
        starts = range(0, X.shape[0], at_once)
        return cls(tuple(X[start : start + at_once].copy(order="K") for start in starts))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._stops[-1], int(self.parts[0].shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all pieces."""
        return sum(part.nbytes for part in self.parts)

    @cached_property
    def whole(self) -> FloatArray:
        """All rows in one array."""
        return np.concatenate(self.parts)

    def take(self, positions: IntArray) -> FloatArray:
        """Return the rows at `positions`, in this order."""
        if positions.size != 1:
            return self.whole[positions]
        piece = bisect_right(self._stops, int(positions[0]))
        part = self.parts[piece]
        place = int(positions[0]) - self._stops[piece] + len(part)
        return part[place : place + 1].copy()

    def without(self, positions: IntArray) -> Chunks:
        """Return the rows less those at `positions`: copies of the pieces that these were in, and no more.

        Parameters
        ----------
        positions : ndarray
            Each once; some row must stay.
        """
        if positions.size == 1:
            return self._without_one(int(positions[0]))
        leaving: dict[int, list[int]] = {}
        for position in positions.tolist():
            leaving.setdefault(bisect_right(self._stops, position), []).append(position)
        parts = list(self.parts)
        for piece, places in leaving.items():
            first = self._stops[piece] - len(parts[piece])
            parts[piece] = dropped(parts[piece], np.array(places) - first)
        return Chunks(tuple(filter(len, parts)))

    def _without_one(self, position: int) -> Chunks:
        piece = bisect_right(self._stops, position)
        part, parts = self.parts[piece], self.parts
        place = position - self._stops[piece] + len(part)
        rest = (np.concatenate([part[:place], part[place + 1 :]]),) if len(part) > 1 else ()
        return Chunks(parts[:piece] + rest + parts[piece + 1 :])


#: Rows of features, in one matrix or in pieces.
Features: TypeAlias = Matrix | Chunks
