"""Features of rows in pieces: a row that leaves takes with it a copy of its piece, and not of everything."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from squaresvm.dropping import dropped
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Features", "Pieces"]

#: Bytes of a piece: copied in no time, and few pieces beside the rows of a kernel matrix that fits.
_PIECE_BYTES = 32 * 1024


class Pieces:
    """Rows of a matrix in several arrays, each its own: none is a view that would keep a row that left.

    Nothing in it changes, so what has been made from it by `without` shares the pieces that stayed.

    Parameters
    ----------
    parts : tuple of ndarray
        At least one, none without rows, with the same columns.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.pieces import Pieces
    >>> rest = Pieces.of(np.arange(6.0).reshape(3, 2)).without(np.array([1]))
    >>> rest.whole
    array([[0., 1.],
           [4., 5.]])
    """

    def __init__(self, parts: tuple[FloatArray, ...]) -> None:
        self.parts = parts
        self._stops = list(accumulate(map(len, parts)))

    @classmethod
    def of(cls, X: FloatArray) -> Pieces:
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

    def without(self, positions: IntArray) -> Pieces:
        """Return the rows less those at `positions`: copies of the pieces that these were in, and no more.

        Parameters
        ----------
        positions : ndarray
            Each once; some row must stay.
        """
        leaving: dict[int, list[int]] = {}
        for position in positions.tolist():
            leaving.setdefault(bisect_right(self._stops, position), []).append(position)
        parts = list(self.parts)
        for piece, places in leaving.items():
            first = self._stops[piece] - len(parts[piece])
            parts[piece] = dropped(parts[piece], np.array(places) - first)
        return Pieces(tuple(filter(len, parts)))


#: Rows of features, in one matrix or in pieces.
Features: TypeAlias = Matrix | Pieces
