"""Rows of K at hand, least recently used out first: for solvers that ask for one row at a time."""

from __future__ import annotations

import numpy as np

from squaresvm.operators.base import Operator
from squaresvm.typing import FloatArray, IntArray

__all__ = ["RowCache"]

#: Rows computed at once where one is missing: a product of matrices is much faster than one of vectors.
_BATCH = 64


class RowCache:
    """Rows of K, all of them where K is held, else as many as a memory limit allows.

    Row i begins at ``values[place[i] * stride]``; ``place[i]`` is -1 where it is not at hand. A flat array,
    because compiled loops run over it several times faster than over a part of a buffer.

    Parameters
    ----------
    operator : Operator
    memory : int
        Bytes for rows, where K is not held; two rows are kept in any case.
    """

    def __init__(self, operator: Operator, memory: int) -> None:
        self.operator = operator
        m = operator.n_rows
        K = operator.full()
        if K is not None:
            # K is symmetric and column-major: columns are rows.
            self.stride = K.strides[1] // 8 if m > 1 else 1
            size = self.stride * (m - 1) + m
            self.values: FloatArray = np.lib.stride_tricks.as_strided(K, (size,), (8,), writeable=False)
            self.place: IntArray = np.arange(m)
            return
        self.capacity = int(min(m, max(2, memory // (8 * m))))
        self.stride = m
        self.values = np.empty(self.capacity * m)
        self.place = np.full(m, -1, dtype=np.intp)
        self._owner = np.full(self.capacity, -1, dtype=np.intp)
        self._stamp = np.zeros(self.capacity, dtype=np.intp)
        self._clock = 0

    @property
    def batch(self) -> int:
        """How many rows to fetch at once."""
        return max(1, min(_BATCH, self.capacity // 4))

    def row(self, index: int) -> FloatArray:
        """Return row `index` of K, fetched if need be; to read, and only until the next is fetched."""
        if self.place[index] < 0:
            self.fetch(np.array([index]), np.array([index]))
        start = self.place[index] * self.stride
        return self.values[start : start + self.place.size]

    def fetch(self, wanted: IntArray, in_use: IntArray) -> None:
        """Compute missing rows, in place of those that were fetched or used longest ago.

        Parameters
        ----------
        wanted : ndarray
            Rows, without repetition; those at hand already are left alone.
        in_use : ndarray
            Rows that must not go.
        """
        self._clock += 1
        self._stamp[self.place[in_use[self.place[in_use] >= 0]]] = self._clock
        missing = wanted[self.place[wanted] < 0][: self.capacity]
        if missing.size == 0:
            return
        places = np.argsort(self._stamp, kind="stable")[: missing.size]
        m = self.place.size
        rows = self.values.reshape(self.capacity, m)
        # Few columns of a store are cheap, few rows are not.
        rows[places] = self.operator.block(np.arange(m), missing).T
        gone = self._owner[places]
        self.place[gone[gone >= 0]] = -1
        self._owner[places] = missing
        self.place[missing] = places
        self._stamp[places] = self._clock
