"""What every operator offers, and a preallocated buffer for K with room for a triangular factor."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np

from squaresvm.linalg.blas import symmetric_product
from squaresvm.operators.single import SingleKernel
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["KernelStore", "Operator"]


class Operator(Protocol):
    """The kernel matrix K of m rows.

    ``features`` is Z with K = Z Z' where such a factor with fewer columns than rows is at hand (a linear
    kernel, Nystrom features), else None. Whoever can work on Z does; whoever cannot asks for blocks.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        ...

    @property
    def features(self) -> Matrix | None:
        """Z of shape (m, n), n < m, with K = Z Z'; None where there is none."""
        ...

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        ...

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b for b of shape (m, k)."""
        ...

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j|, the size that rounding is measured by; 0 in rows not computed."""
        ...

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns], a new array."""
        ...

    def full(self) -> FloatArray | None:
        """Return K in one array, to read, where it is held so; else None."""
        ...

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return products with K in float32, within some bytes; None where K is at hand in float64."""
        ...

    def store(self) -> KernelStore:
        """Return K in a buffer that a factor may share; made when first asked for."""
        ...

    @property
    def slots(self) -> IntArray:
        """Slot of each row in the store."""
        ...

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f, given the multipliers: the same for most kernels."""
        ...

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return sum_i k(x, x_i) coefficients_i for each row x of X."""
        ...


#: Bytes of one block of kernel values on its way into a store: temporaries must stay small beside K.
_FILL_BYTES = 6 * 2**20
#: Columns of a block at most: both halves of its corner on the diagonal are computed, and one is dropped.
_FILL_COLUMNS = 256
#: Bytes of whole columns on the way to parts of them: few enough for a processor's own cache.
_GATHER_BYTES = 2**19


class KernelStore:
    """A symmetric matrix in one buffer, by slots, with room to lend to a factor.

    The buffer has one row more than columns. K takes the upper triangle, diagonal included; one row further
    down, what is left is a whole lower triangle, diagonal included, for a Cholesky factor or an inverse.
    So K stays at hand for the certificate, for refinement and for a new factorisation, in the memory of
    one square matrix. Until the room is lent, the lower triangle holds K as well, and blocks are cheap.

    Rows live in slots. A row that leaves frees its slot, a row that comes takes a free one or one behind
    the last, for which some room is kept.

    Parameters
    ----------
    n_rows : int
    block : callable
        ``block(rows, columns)`` returns K[rows, columns] for two slices.
    lent : bool, default=True
        Whether to lend the room from the start.

    Attributes
    ----------
    tenant : object
        Whose factor lies in the room. Whoever finds another one there has lost its own.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.operators import KernelStore
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> store = KernelStore(2, lambda rows, columns: K[rows, columns])
    >>> store.room(2)[np.tril_indices(2)] = np.nan  # whoever borrows the room may write there
    >>> store.matmul(np.array([[1.0], [1.0]])).ravel()
    array([3., 4.])
    """

    def __init__(
        self, n_rows: int, block: Callable[[slice, slice], FloatArray], *, lent: bool = True
    ) -> None:
        self.size = n_rows
        self.lent = lent
        self.tenant: object | None = None
        self._fresh = lent  # Whether the room still holds K.
        self._buffer = _allocate(n_rows)
        kernel, room = self._kernel, self.room(n_rows)
        for columns in row_blocks(n_rows, n_rows, min(_FILL_BYTES, 8 * n_rows * _FILL_COLUMNS)):
            start, stop = columns.start, columns.stop
            values = block(slice(start, n_rows), columns)
            corner, below = values[: stop - start], values[stop - start :]
            kernel[columns, stop:] = below.T
            (room if lent else kernel)[stop:, columns] = below
            self._fill_corner(corner, columns)

    @classmethod
    def copy_of(cls, K: FloatArray) -> KernelStore:
        """Return a store, not lent yet, with a copy of a symmetric K: one straight pass over the memory."""
        store = cls(0, lambda rows, columns: K[rows, columns], lent=False)
        store.size = K.shape[0]
        store._buffer = _allocate(store.size)
        store._kernel.T[...] = K
        return store

    def _fill_corner(self, values: FloatArray, part: slice) -> None:
        lower = _lower_half(values.shape[0])
        corner = self._kernel[part, part]
        below = self.room(self.size)[part, part] if self.lent else corner
        np.copyto(below, values, where=lower)
        np.copyto(corner.T, values, where=lower)

    @property
    def _kernel(self) -> FloatArray:
        return self._buffer[: self.size, : self.size]

    def room(self, size: int) -> FloatArray:
        """Return the part of the buffer whose lower triangle is free for a factor of `size` slots."""
        return self._buffer[1 : size + 1, :size]

    def lend(self) -> FloatArray:
        """Return the room with K in its lower triangle, for a factor to overwrite."""
        m = self.size
        if not self.lent:
            for j in range(m):
                self._buffer[j + 1 : m + 1, j] = self._buffer[j:m, j]
            self.lent = True
        elif not self._fresh:
            self._copy_kernel_to_room()
        self._fresh = False
        return self.room(m)

    def _copy_kernel_to_room(self) -> None:
        m = self.size
        kernel, room = self._kernel, self.room(m)
        for columns in row_blocks(m, m):
            room[columns.stop :, columns] = kernel[columns, columns.stop :].T
            lower = _lower_half(columns.stop - columns.start)
            np.copyto(room[columns, columns], kernel[columns, columns].T, where=lower)

    @property
    def full(self) -> FloatArray | None:
        """K in both triangles, a view to read; None once the room is lent."""
        return None if self.lent else self._kernel

    @property
    def diagonal(self) -> FloatArray:
        """Diagonal of K, a slot each."""
        return np.diagonal(self._kernel).copy()

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b for b of shape (slots, k)."""
        return symmetric_product(self._kernel, b, lower=False)

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each slot and column of b."""
        total = np.zeros_like(b)
        size = np.abs(b)
        m = self.size
        for columns in row_blocks(m, m):
            start, stop = columns.start, columns.stop
            above = np.abs(self._kernel[:stop, columns])
            above[start:] = np.triu(above[start:], 1)
            total[:stop] += above @ size[columns]
            total[columns] += above.T @ size[:stop]
        total += np.abs(self.diagonal)[:, None] * size
        return total

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns], by slots, a new Fortran-ordered array."""
        if not self.lent:
            # Rows of the transpose are contiguous: whole ones first, then parts of them, is the fast order.
            out = np.empty((rows.size, columns.size), order="F")
            for part in row_blocks(columns.size, self.size, _GATHER_BYTES):
                np.take(self._kernel.T[columns[part]], rows, axis=1, out=out.T[part], mode="clip")
            return out
        if columns.size <= rows.size:
            out = np.empty((rows.size, columns.size), order="F")
            for position, column in enumerate(columns):
                out[:, position] = self.column(column)[rows]
            return out
        return np.asfortranarray(self.block(columns, rows).T)

    def column(self, slot: int) -> FloatArray:
        """Return one column of K, a new array."""
        kernel = self._kernel
        return np.concatenate([kernel[:slot, slot], kernel[slot, slot:]])

    def put(self, slots: IntArray, cross: FloatArray, corner: FloatArray) -> None:
        """Write rows into free slots, or into those behind the last, growing the buffer if need be.

        Parameters
        ----------
        slots : ndarray of shape (q,)
        cross : ndarray of shape (size, q)
            K between the slots in use and the new rows; zero where a slot is empty.
        corner : ndarray of shape (q, q)
            K of the new rows.
        """
        before = self.size
        self.reserve(int(slots.max()) + 1)
        columns = np.zeros((self.size, slots.size))
        columns[:before] = cross
        columns[slots] = corner
        for position, slot in enumerate(slots):
            self._set(int(slot), columns[:, position])

    def reserve(self, size: int) -> None:
        """Make sure that there are `size` slots; new ones are empty."""
        before, self.size = self.size, max(self.size, size)
        self._fresh = False
        if self.size > self._buffer.shape[1]:
            self._grow(before)
        kernel = self._kernel
        kernel[:, before:] = 0.0
        if not self.lent:
            kernel[before:, :before] = 0.0

    def clear(self, slots: IntArray) -> None:
        """Write zeros where the rows of these slots were."""
        kernel = self._kernel
        for slot in slots.tolist():
            kernel[: slot + 1, slot] = 0.0
            kernel[slot, slot:] = 0.0
            if not self.lent:
                kernel[slot:, slot] = 0.0
                kernel[slot, :slot] = 0.0

    def erase(self) -> None:
        """Write zeros over all of K, and leave the room as it is."""
        kernel = self._kernel
        for j in range(self.size):
            kernel[: j + 1, j] = 0.0

    def _set(self, slot: int, column: FloatArray) -> None:
        kernel = self._kernel
        kernel[: slot + 1, slot] = column[: slot + 1]
        kernel[slot, slot:] = column[slot:]
        if not self.lent:
            kernel[slot:, slot] = column[slot:]
            kernel[slot, :slot] = column[:slot]

    def _grow(self, used: int) -> None:
        buffer = _allocate(self.size + self.size // 8)
        buffer[: used + 1, :used] = self._buffer[: used + 1, :used]
        self._buffer = buffer


def _allocate(n_rows: int) -> FloatArray:
    """Return a buffer of zeros with room for some more rows; pages that are never touched cost nothing."""
    capacity = n_rows + n_rows // 32 + 8
    return np.zeros((capacity + 1, capacity), order="F")


@lru_cache(maxsize=4)
def _lower_half(size: int) -> BoolArray:
    """Return where the lower triangle of a block is, its diagonal included; not to be written to."""
    return np.tri(size, dtype=bool)
