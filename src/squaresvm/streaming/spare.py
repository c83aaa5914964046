"""Arrays that are used again, block after block: memory that was never used before is slow to get."""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SpareArrays"]


class SpareArrays:
    """Hands out arrays, and hands them out again once nobody refers to them any more.

    Parameters
    ----------
    at_most : int
        Arrays that are kept for another time.

    Examples
    --------
    >>> from squaresvm.streaming.spare import SpareArrays
    >>> spare = SpareArrays(2)
    >>> first = spare.take(4, 3, float)
    >>> where = first.ctypes.data
    >>> spare.take(4, 3, float).ctypes.data == where
    False
    >>> del first
    >>> spare.take(2, 3, float).ctypes.data == where
    True
    """

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._kept: list[npt.NDArray[Any]] = []
        self._lock = Lock()

    def take(self, rows: int, columns: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of this shape with whatever is in it."""
        kind = np.dtype(dtype)
        with self._lock:
            for array, references in _references(self._kept):
                fits = array.dtype == kind and array.shape[1] == columns and array.shape[0] >= rows
                if fits and references == _UNUSED:
                    return array[:rows]
            array = np.empty((rows, columns), dtype=kind)
            if len(self._kept) < self._at_most:
                self._kept.append(array)
            # A part of it, as above: whoever has the part, or a part of that, refers to the array.
            return array[:rows]


def _references(arrays: list[npt.NDArray[Any]]) -> list[tuple[npt.NDArray[Any], int]]:
    """Return each array with how many refer to it; the counting itself does, how often is Python's affair."""
    counts = [sys.getrefcount(array) for array in arrays]
    return list(zip(arrays, counts, strict=True))


#: What is counted for an array that only the list refers to.
_UNUSED = _references([np.empty((0, 0))])[0][1]
