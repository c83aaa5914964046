"""The kernel matrix of features, computed when asked for and never held whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.operators.base import Operator
from squaresvm.operators.dense import DenseOperator
from squaresvm.operators.single import SingleKernel, Tiles
from squaresvm.operators.store import KernelStore
from squaresvm.rows.chunks import Features
from squaresvm.runtime.memory import available_memory, row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["OnDemandOperator", "RowCache"]

#: Share of rows with a part in a product below which only their kernel values are computed.
_SPARSE_SHARE = 0.5


class OnDemandOperator(DenseOperator):
    """K = k(X, X) by rows and blocks on demand: memory for some rows, where K would not fit.

    Whoever needs a factor still gets K whole, if it asks for the store and the memory is there.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n), or Chunks
    """

    def __init__(self, kernel: Kernel, X: Features) -> None:
        super().__init__(kernel, X)
        self._last: tuple[FloatArray, FloatArray] | None = None

    @property
    def is_held(self) -> bool:
        """Whether somebody has asked for the store, so that K is there after all."""
        return self._store is not None

    def hold(self) -> None:
        """Compute K and keep it: for whoever needs it whole, or row after row."""
        self._held()

    def store(self) -> KernelStore:
        """Return K in a buffer, formed now; a MemoryError says what that takes where it cannot be had."""
        needed = 8 * self.n_rows**2
        if not self.is_held and needed > available_memory():
            raise MemoryError(
                f"the kernel matrix of {self.n_rows} rows takes {needed / 2**30:.1f} GB: take a solver that "
                "works on rows, such as '2smo', 'sesquismo' or 'substitution'"
            )
        return super().store()

    def full(self) -> FloatArray | None:
        """Return None, unless K is held after all."""
        return super().full() if self.is_held else None

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return products with K in float32, within some bytes; None where K is held after all."""
        return None if self.is_held else SingleKernel(self.kernel, self.X, memory)

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b, block by block; of few rows of b that are not zero, from those alone."""
        if self.is_held:
            return super().matmul(b)
        last = self._last
        if last is not None and np.array_equal(last[0], b):
            # A solver asks for the residual of its answer, and then the certificate does.
            return last[1].copy()
        if np.count_nonzero(b.any(axis=1)) < _SPARSE_SHARE * self.n_rows:
            product = self.cross(self.X, b)
        else:
            product = Tiles(self.kernel, self.X).matmul(b)
        self._last = (b.copy(), product)
        return product.copy()

    def clear(self, rows: IntArray) -> None:
        """Forget the last product, and write zeros where these rows were in the store."""
        self._last = None
        super().clear(rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed again."""
        return {**super().__getstate__(), "_last": None}

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        if self.is_held:
            return super().magnitude(b)
        size, out = np.abs(b), np.empty(b.shape)
        for part in row_blocks(self.n_rows, self.n_rows):
            out[part] = np.abs(self.kernel(self.X[part], self.X)) @ size
        return out

    def rows_times(self, rows: IntArray, b: FloatArray) -> FloatArray:
        """Return K[rows] b, for a few rows."""
        return super().rows_times(rows, b) if self.is_held else self.cross(self.X[rows], b)

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        if self.is_held:
            return super().block(rows, columns)
        everything = columns.size == self.n_rows and bool(np.all(np.diff(columns) == 1))
        return self.kernel(self.X[rows], self.X if everything else self.X[columns])

    def without(self, gone: IntArray, X: Features) -> DenseOperator:
        """Return the operator of the rest, X; on the same store if there is one."""
        return super().without(gone, X) if self.is_held else OnDemandOperator(self.kernel, X)

    def joined(self, X: Matrix) -> tuple[DenseOperator, FloatArray, FloatArray]:
        """Return the operator of X, K between held and new rows, and K of the new rows."""
        if self.is_held:
            return super().joined(X)
        new = X[self.n_rows :]
        return OnDemandOperator(self.kernel, X), self.kernel(self.X, new), self.kernel(new, new)


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
