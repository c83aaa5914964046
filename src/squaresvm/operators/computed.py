"""Operators that never hold K whole: computed when asked for, or linear, K = Z Z', and never formed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from squaresvm.kernels import Kernel, inner_products
from squaresvm.linalg.blas import times
from squaresvm.operators.single import SingleKernel, Tiles
from squaresvm.operators.store import KernelStore, Operator
from squaresvm.operators.stored import DenseOperator
from squaresvm.rows.chunks import Features
from squaresvm.runtime.resources import available_memory, row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["LinearOperator", "OnDemandOperator", "RowCache", "pivoted_features"]

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
    def arrays(self) -> tuple[FloatArray, int, IntArray]:
        """Values, stride and place of the rows, as compiled loops take them."""
        return self.values, self.stride, self.place

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


#: Rows whose rounding is computed exactly, by K itself, out of those where a bound is largest.
_EXACT_ROWS = 16


class LinearOperator:
    """K = Z Z' with the rows themselves as Z.

    Parameters
    ----------
    X : array or CSR matrix of shape (m, n)
    """

    def __init__(self, X: Matrix) -> None:
        self.X = X

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.X.shape[0])

    @property
    def features(self) -> Matrix:
        """The rows themselves."""
        return self.X

    def full(self) -> FloatArray | None:
        """Return None: K is never formed."""
        return None

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return None: products in float64 are at hand."""
        return None

    def store(self) -> KernelStore:
        """Return K in a buffer, formed now: whoever works on features has no need of it."""
        return DenseOperator(Kernel("linear"), self.X).store()

    @property
    def slots(self) -> IntArray:
        """Slot of each row in that buffer."""
        return np.arange(self.n_rows)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K, not to be written to."""
        return self._norms

    @cached_property
    def _norms(self) -> FloatArray:
        """|x_i|^2: the choice of a solver, the solver and the certificate all ask for them."""
        norms = Kernel("linear").diagonal(self.X)
        norms.flags.writeable = False
        return norms

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return Z (Z' b)."""
        return times(self.X, times(self.X.T, b))

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| in the rows where |Z| |Z|' |b| is largest, 0 in the others.

        All rows would cost as much as K itself, and only the largest value is of interest.
        """
        size = np.abs(b)
        bound = times(abs(self.X), times(abs(self.X).T, size))
        total = np.zeros_like(b)
        count = min(_EXACT_ROWS, self.n_rows)
        for column in range(b.shape[1]):
            rows = np.argpartition(bound[:, column], -count)[-count:]
            for part in row_blocks(self.n_rows, count):
                near = np.abs(inner_products(self.X[part], self.X[rows]))
                total[rows, column] += size[part, column] @ near
        return total

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        return inner_products(self.X[rows], self.X[columns])

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f: the multipliers themselves."""
        return coefficients

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return X Z' coefficients."""
        return times(X, times(self.X.T, coefficients))


def pivoted_features(K: FloatArray) -> FloatArray:
    """Return Z of as many columns as K has rank in floating point, by a Cholesky factor with pivoting.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Positive semidefinite.

    Returns
    -------
    ndarray of shape (m, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.operators.computed import pivoted_features
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> Z = pivoted_features(X @ X.T)
    >>> Z.shape, bool(np.allclose(Z @ Z.T, X @ X.T))
    ((6, 2), True)
    """
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(K, lower=1)
    Z = np.empty((K.shape[0], rank))
    Z[pivots - 1] = np.tril(factor)[:, :rank]
    return Z
